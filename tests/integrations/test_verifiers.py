"""verifiers loads the environment by its name and plays the games of ``gym.make`` with it."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gymnasium as gym
import pytest
from verifiers.v1.utils.loaders import taskset_class

import ragen_envs  # noqa: F401
from ragen_envs.errors import RagenError

REPLIES = {
    "Sokoban": "<think>go</think><answer>Down || Right || Up</answer>",
    "WebShop": "<think>go</think><answer>search[waterproof jacket]</answer>",
}


class Endpoint(BaseHTTPRequestHandler):
    """A model that says the same each time, behind the protocol that all servers speak."""

    def do_POST(self):
        self.server.seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        message = {"role": "assistant", "content": self.server.reply}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": self.server.finish_reason}
        head = {"id": "0", "object": "chat.completion", "created": 0, "model": "echo"}
        body = json.dumps({**head, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.seen, server.reply, server.finish_reason = [], "", "stop"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def played(game, index):
    env = gym.make(f"ragen/{game}Text-v0")
    env.reset(options={"split": "test", "index": index})
    chats, total, over = [], 0.0, False
    while not over:
        chats.append(env.get_wrapper_attr("messages"))
        _, reward, terminated, truncated, info = env.step(REPLIES[game])
        total, over = total + reward, terminated or truncated
    return chats, total, info["success"]


def test_loader_finds_the_taskset():
    taskset_type = taskset_class("ragen-games")
    config = taskset_type.__orig_bases__[0].__args__[1](id="ragen-games", levels=3)
    tasks = list(taskset_type(config))
    assert [task.data.index for task in tasks] == [0, 1, 2]
    env = gym.make("ragen/SokobanText-v0")
    env.reset(options={"split": "test", "index": 2})
    assert (tasks[2].data.system_prompt, tasks[2].data.prompt) == (
        env.get_wrapper_attr("system"),
        env.get_wrapper_attr("user"),
    )


def test_worked_examples_are_part_of_the_prompt():
    taskset_type = taskset_class("ragen-games")
    config_type = taskset_type.__orig_bases__[0].__args__[1]
    config = config_type(id="ragen-games", levels=1, settings={"demonstrations": 2})
    (task,) = taskset_type(config)
    env = gym.make("ragen/SokobanText-v0", demonstrations=2)
    env.reset(options={"split": "test", "index": 0})
    prompt = [(message.role, message.content) for message in task.data.prompt]
    chat = env.get_wrapper_attr("messages")[1:]
    assert prompt == [(message["role"], message["content"]) for message in chat]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"history": "none"}, "history is 'none', but must be 'full'"),
        ({"think_prefix": True}, "think_prefix is true, but must be false"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(settings, words):
    taskset_type = taskset_class("ragen-games")
    config_type = taskset_type.__orig_bases__[0].__args__[1]
    config = config_type(id="ragen-games", levels=1, settings=settings)
    with pytest.raises(RagenError, match=words):
        list(taskset_type(config))


def evaluated(game, endpoint, folder, *arguments):
    """Return the rows that the evaluator writes."""
    host, port = endpoint.server_address
    command = [
        str(Path(sys.executable).parent / "vf-eval"), "ragen-games",
        "--env.taskset.game", game, "--model", "echo",
        "--client.base-url", f"http://{host}:{port}/v1", *arguments,
        "--client.api-key-var", "RAGEN_TEST_KEY", "--no-rich", "--no-push", "-o", str(folder),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "RAGEN_TEST_KEY": "none"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.rglob("traces.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("game", REPLIES)
def test_evaluator_plays_against_an_endpoint(game, endpoint, tmp_path):
    endpoint.reply = REPLIES[game]
    rows = evaluated(f"ragen/{game}Text-v0", endpoint, tmp_path, "--env.taskset.levels", "3")
    assert len(rows) == 3
    expected = {index: played(game, index) for index in range(3)}
    for row in rows:
        (trace,) = row["traces"]
        _, total, success = expected[row["task"]["data"]["index"]]
        assert trace["rewards"]["episode_return"]["score"] == pytest.approx(total)
        assert trace["metrics"]["success"] == float(success)
    asked = [request["messages"] for request in endpoint.seen]
    chats = [chat for index in expected for chat in expected[index][0]]
    plain = [[{k: m[k] for k in ("role", "content")} for m in messages] for messages in asked]
    assert sorted(plain, key=str) == sorted(chats, key=str)


def test_rollouts_of_a_level_have_random_events_of_their_own(endpoint, tmp_path):
    """A reply says the same each time, so only the ice tells rollouts apart."""
    endpoint.reply = "<think>go</think><answer>Left || Left</answer>"  # most survive it
    several = ("--env.taskset.levels", "1", "--num-rollouts", "12")
    rows = evaluated("ragen/FrozenLakeText-v0", endpoint, tmp_path, *several)
    assert len(rows) == 12
    assert len({json.dumps(row["traces"][0]["nodes"][:4]) for row in rows}) > 1
    assert len({str(chat) for chat in map(last_message, endpoint.seen)}) > 2


def last_message(request):
    return request["messages"][-1]["content"]


def test_a_reply_that_was_cut_off_is_invalid(endpoint, tmp_path):
    endpoint.reply, endpoint.finish_reason = "<think>go</think><answer>Left</answer>", "length"
    evaluated("ragen/SokobanText-v0", endpoint, tmp_path, "--env.taskset.levels", "1")
    assert "cut off" in last_message(endpoint.seen[1])


def test_a_game_that_does_not_tell_success_has_no_such_metric(endpoint, tmp_path):
    endpoint.reply = "<think>stay</think><answer>0</answer>"
    (row,) = evaluated("Blackjack-v1", endpoint, tmp_path, "--env.taskset.levels", "1")
    assert "success" not in row["traces"][0]["metrics"]
