"""The pages of the shop as HTML, without any script."""

from html import escape
from typing import Final

from ragen_envs.games.webshop.catalogue import Catalogue, Product
from ragen_envs.games.webshop.dynamics import BACK, BUY, SUBPAGES, Page, buttons
from ragen_envs.games.webshop.pages import subpage_lines

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --accent: #2e74c4; }
html { background: Canvas; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 0 auto; padding: 1rem; }
.instruction { border-left: 4px solid var(--accent); padding: .5rem 1rem; background: #8881; }
.product { display: flex; gap: 1rem; padding: .6rem 0; border-bottom: 1px solid var(--line); }
.product .title { flex: 1; }
.price { font-weight: 600; white-space: nowrap; }
button, .button { font: inherit; border: 1px solid var(--line); border-radius: .5rem; padding: .35rem .8rem;
  margin: .15rem; background: #8881; color: inherit; cursor: pointer; text-decoration: none;
  display: inline-block; }
button:hover, button:focus-visible { border-color: var(--accent); }
button.chosen { background: var(--accent); color: #fff; }
button.buy { background: #c8401f; color: #fff; font-weight: 600; }
input { font: inherit; padding: .4rem .6rem; width: min(28rem, 70%); }
fieldset { border: 0; padding: 0; margin: .4rem 0; }
"""


def page_html(instruction: str, page: Page, catalogue: Catalogue, note: str = "", token: str = "") -> str:
    """Return a page as a whole HTML document.

    Every button sends the form field ``action`` to the page's own address by POST, and the ``token``, by
    which a server knows its own pages. Nothing is loaded from elsewhere, and nothing in it runs. The note is
    shown above the page.
    """
    hidden = f'<input type="hidden" name="token" value="{escape(token, quote=True)}">' if token else ""
    status = f'<p role="status">{escape(note)}</p>' if note else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>WebShop</title><style>{_STYLE}</style></head><body><main>"
        f'<p class="instruction">{escape(instruction)}</p>{status}'
        f'<form method="post">{hidden}{_body(page, catalogue)}</form></main></body></html>'
    )


def _button(label: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    value = escape(f"click[{label}]", quote=True)
    return f'<button name="action" value="{value}"{name}>{escape(label)}</button>'


def _body(page: Page, catalogue: Catalogue) -> str:
    if page.bought:
        assert page.product is not None
        return f"<h1>Thank you for your purchase</h1><p>{escape(page.product.title)}</p>"
    if page.query is None:
        return (
            "<h1>WebShop</h1>"
            '<input name="query" aria-label="Search" autofocus> <button name="action" value="search">'
            "Search</button>"
        )
    top = "".join(_button(label) for label in buttons(page, catalogue) if label in _NAVIGATION)
    if page.product is None:
        rows = "".join(_row(catalogue[number]) for number in page.shown)
        about = f"Page {page.number} (Total results: {len(page.hits)})"
        return f"<nav>{top}</nav><h1>Results</h1><p>{about}</p>{rows}"
    product = page.product
    title = f"<h1>{escape(product.title)}</h1>"
    if page.subpage is not None:
        lines = "".join(f"<li>{escape(line)}</li>" for line in subpage_lines(product, page.subpage))
        return f"<nav>{top}</nav>{title}<h2>{page.subpage}</h2><ul>{lines}</ul>"
    more = "".join(_button(label) for label in SUBPAGES)
    return (
        f'<nav>{top}</nav>{title}<p class="price">${product.price:.2f}</p>{_options(page)}'
        f"<p>{more}</p><p>{_button(BUY, 'buy')}</p>"
    )


_NAVIGATION: Final = (BACK, "< Prev", "Next >")


def _row(product: Product) -> str:
    return (
        f'<div class="product">{_button(product.id)}<span class="title">{escape(product.title)}</span>'
        f'<span class="price">${product.price:.2f}</span></div>'
    )


def _options(page: Page) -> str:
    assert page.product is not None
    groups, labels = [], page.option_labels
    for name, values in page.product.options:
        kinds = ("chosen" if page.options.get(name) == value else "" for value in values)
        shown = "".join(_button(labels[name, value], kind) for value, kind in zip(values, kinds, strict=True))
        groups.append(f"<fieldset><legend>{escape(name)}</legend>{shown}</fieldset>")
    return "".join(groups)
