"""Local servers, and small mistakes on the command line."""

import http.client
import io
import sys
import threading

import pytest
from ragen_bench.__main__ import _missing, main
from ragen_bench.config.overrides import read_overrides
from ragen_bench.viewer.templates import folder_server


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/", "127.0.0.1", 200), ("/", "localhost:8000", 200), ("/", "evil.example", 421),
        ("/", "127.0.0.1.evil.example:80", 421), ("/%00", "localhost", 404),
    ],
)  # fmt: skip
def test_local_servers_answer_local_hosts(path, host, status, tmp_path, capsys):
    (tmp_path / "index.html").write_text("here")
    with folder_server(tmp_path, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        client.request("GET", path, headers={"Host": host})
        assert client.getresponse().status == status
        client.close()
        server.shutdown()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("new-game sokoban", "there is a package or a game of that name"),
        ("--import nothing_inside games", "a folder without an __init__.py"),
    ],
)
def test_mistakes_are_one_line(words, message, tmp_path, monkeypatch, fails):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing_inside").mkdir()
    assert message in fails(*words.split())


def test_of_two_values_of_a_setting_the_last_counts_and_a_note_says_so(capsys):
    assert read_overrides(["think=true", "size.x=1", "think=false"]) == {
        "think": False,
        "size": {"x": 1},
    }
    assert capsys.readouterr().err == "note: think is set twice; the last value counts\n"


def test_missing_systems_are_named():
    assert "Linux and macOS" in _missing(ModuleNotFoundError("no", name="fcntl"))


def test_terminals_without_signs_of_boards_show_others(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Right\nquit\n"))
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert main(["play", "FrozenLake"]) == 0
    stdout.flush()
    assert b"?" in stdout.buffer.getvalue()
