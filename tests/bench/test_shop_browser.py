"""`ragen play WebShop --browser`: the shop in a real browser, played by clicks."""

import threading
import urllib.error
import urllib.request

import pytest
from ragen_bench.__main__ import main
from ragen_bench.play.browser import ShopSession, serve_shop

from ragen_envs.conversation import make
from ragen_envs.errors import RagenError


@pytest.fixture
def session():
    env = make("ragen/WebShopText-v0")
    env.reset(options={"split": "test", "index": 0})
    return ShopSession(env)


@pytest.fixture
def address(session):
    with serve_shop(session, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_person_buys_what_is_asked_for(browser, session, address):
    goal = session.shop.goal
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.goto(address)
    assert goal.instruction in page.inner_text("body")
    page.fill("input[name=query]", goal.product.title)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("button", name=goal.product.id, exact=True).click()
    page.get_by_role("button", name="Features", exact=True).click()
    assert goal.product.bullets[1] in page.inner_text("body")
    page.get_by_role("button", name="< Prev", exact=True).click()
    for _, value in goal.options:
        page.get_by_role("button", name=value, exact=True).click()
    assert page.locator("button.chosen").count() == len(goal.options)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Buy Now", exact=True).click()
    assert "Score: 1. Wrong: nothing." in page.inner_text("body")
    assert session.env.success
    page.close()


def test_what_is_wrong_is_said_on_the_page(browser, session, address):
    page = browser.new_page()
    page.goto(address)
    page.get_by_role("button", name="Search").click()
    assert "the brackets are empty" in page.inner_text("[role=status]")
    page.fill("input[name=query]", "<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Search").click()
    assert page.locator("img").count() == 0
    page.close()


def ask(address, data=None):
    try:
        return urllib.request.urlopen(address, data, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


def test_forms_of_other_pages_are_refused(session, address):
    before = session.shop.page
    assert ask(address, b"action=search&query=tea") == 403
    assert ask(address, b"action=search&query=tea&token=wrong") == 403
    assert ask(address, b"x" * 20_000) == 413
    assert ask(address + "elsewhere") == 404
    assert session.shop.page == before
    token = session.token.encode()
    assert ask(address, b"action=search&query=tea&token=" + token) == 200
    assert session.shop.page.query == "tea"


def test_other_games_are_refused(capsys):
    assert main(["play", "Sokoban", "--browser"]) == 2
    assert "--browser plays WebShop only" in capsys.readouterr().err


def test_a_port_in_use_is_named(session, address):
    port = int(address.rstrip("/").rpartition(":")[2])
    with pytest.raises(RagenError, match=f"port is {port}, but it cannot be used"):
        serve_shop(session, port)
