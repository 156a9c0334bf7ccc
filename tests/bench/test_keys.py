"""`ragen play` in a real terminal: arrow keys, lines, and nothing of a key on the screen as it is."""

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

CORRIDOR = 'level=["#######", "#P_X_O#", "#######"]'
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"


@pytest.fixture
def terminal():
    """Start `ragen play` in a terminal of 80 columns; give functions to type and to read the screen."""
    started = []

    def start(*arguments):
        ours, theirs = pty.openpty()
        environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
        process = subprocess.Popen(
            [sys.executable, "-m", "ragen_bench", "play", *arguments],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
        )  # fmt: skip
        os.close(theirs)
        started.append((process, ours))
        return process, ours

    yield start
    for process, ours in started:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(ours, pattern, seconds=60):
    shown, end = "", time.monotonic() + seconds
    while not re.search(pattern, shown):
        assert time.monotonic() < end, shown
        if select.select([ours], [], [], 0.2)[0]:
            try:
                shown += os.read(ours, 65_536).decode("utf-8", "replace")
            except OSError:
                break  # the other side has ended
    return shown


def type_keys(ours, *keys):
    for key in keys:
        os.write(ours, key.encode())
        time.sleep(0.05)


def test_arrow_keys_are_actions_of_a_turn(terminal):
    process, ours = terminal("Sokoban", "--setting", "actions_per_turn=3", "--setting", CORRIDOR)
    read_until(ours, "> $")
    type_keys(ours, UP, RIGHT, "\x7f", "l", "\r")  # letters and arrows in one turn
    shown = read_until(ours, r"Turn 2 of 5[\s\S]*> $")
    assert "Executed: Up (no effect), Left (no effect)." in shown
    assert "\x1b[A" not in shown
    assert "^[[A" not in shown
    type_keys(ours, DOWN, DOWN, DOWN)  # a full turn plays without Enter
    shown = read_until(ours, r"Turn 3 of 5[\s\S]*> $")
    assert "Executed: Down (no effect), Down (no effect), Down (no effect)." in shown
    type_keys(ours, "quit", "\r")
    read_until(ours, "you stopped")
    assert process.wait(20) == 0


@pytest.mark.parametrize("cut", [1, 2])
def test_an_arrow_key_that_arrives_in_two_parts_is_one_key(terminal, cut):
    _, ours = terminal("FrozenLake", "--setting", "actions_per_turn=1", "--index", "0")
    read_until(ours, "> $")
    os.write(ours, RIGHT[:cut].encode())
    time.sleep(0.01)
    os.write(ours, RIGHT[cut:].encode())
    assert "Executed: Right" in read_until(ours, r"Turn 2 of 5[\s\S]*> $|game is over")


def test_one_action_a_turn_plays_at_once(terminal):
    _, ours = terminal("FrozenLake", "--setting", "actions_per_turn=1", "--index", "0")
    read_until(ours, "> $")
    type_keys(ours, RIGHT)
    assert "Executed: Right" in read_until(ours, r"Turn 2 of 5[\s\S]*> $|game is over")


def test_other_keys_write_a_line_and_ctrl_d_stops(terminal):
    process, ours = terminal("Countdown", "--setting", 'level="26: 3 7 8 25"')
    read_until(ours, "> $")
    type_keys(ours, UP, "\x1b[5~", "\x1b")
    time.sleep(0.3)  # longer than the end of a sequence is waited for
    type_keys(ours, "25 - 77", "\x7f", "\r")
    assert "Executed: 25 - 7." in read_until(ours, r"Turn 2 of 5[\s\S]*> $")
    type_keys(ours, "\x04")
    read_until(ours, "you stopped")
    assert process.wait(20) == 0
