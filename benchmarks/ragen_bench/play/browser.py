"""Play WebShop in a browser: the pages as HTML, served to this computer only."""

import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Final
from urllib.parse import parse_qs

from ragen_bench.viewer.templates import LocalHandler, local_server
from ragen_envs.conversation import ConversationWrapper, format_reply
from ragen_envs.errors import RagenError
from ragen_envs.games.webshop import WebShopEnv
from ragen_envs.games.webshop.html import page_html

MOST_BYTES: Final = 16_384
"""Longest form that is read."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"


class ShopSession:
    """One episode, played by clicks."""

    def __init__(self, env: ConversationWrapper) -> None:
        shop = env.unwrapped
        if not isinstance(shop, WebShopEnv):
            raise RagenError("--browser plays WebShop only; leave it out for other games")
        self.env = env
        self.shop: WebShopEnv = shop
        self.token = secrets.token_urlsafe(16)
        self._lock = Lock()
        self._note = ""

    def play(self, action: str) -> None:
        """Play an action as a reply, unless the episode has ended."""
        with self._lock:
            if self.env.end is None:
                thought = "" if self.env.settings.think else None
                result = self.env.play(format_reply([action.replace("||", " ")], thought))
                self._note = result.parsed.reason

    def page(self) -> str:
        """Return the page as HTML."""
        shop = self.shop
        with self._lock:
            return page_html(shop.goal.instruction, shop.page, shop.catalogue, self._about(), self.token)

    def _about(self) -> str:
        verdict, left = self.shop.verdict, self.env.budget.turns
        if verdict is not None:
            wrong = ", ".join(verdict.wrong(self.shop.goal)) or "nothing"
            return f"Score: {verdict.score:.3g}. Wrong: {wrong}."
        if self.env.end is not None:
            return "The turns are used up; nothing was bought."
        return f"{self._note + '. ' if self._note else ''}Turns left: {left}."


def serve_shop(session: ShopSession, port: int) -> ThreadingHTTPServer:
    """Return a server of the session, listening on this computer only; the caller lets it run."""

    class Handler(LocalHandler, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] == "/":
                self._send(200, session.page())
            else:
                self._send(404, "<!doctype html><title>Not found</title>")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > MOST_BYTES:
                self._send(413, "<!doctype html><title>Too long</title>")
                return
            form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
            if form.get("token") != [session.token]:
                self._send(403, "<!doctype html><title>Reload the page</title>")
                return
            action = form.get("action", [""])[0]
            if action == "search":
                action = f"search[{form.get('query', [''])[0]}]"
            session.play(action)
            self.send_response(303)
            self.send_header("Location", "/")
            self.end_headers()

        def _send(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            for name, value in (
                ("Content-Type", "text/html; charset=utf-8"),
                ("Content-Length", str(len(data))),
                ("Content-Security-Policy", _POLICY),
                ("Cache-Control", "no-store"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return local_server(port, Handler)


def play_in_browser(env: ConversationWrapper, port: int) -> None:
    """Serve an episode until it is interrupted."""
    session = ShopSession(env)
    with serve_shop(session, port) as server:
        print(f"open http://127.0.0.1:{server.server_port}/ in a browser; Ctrl-C to stop", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")
