"""Entries as a careful forger would write them: with all hashes that belong to their contents."""

import atexit
import hashlib
import json
import lzma
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

from ragen_bench.leaderboard.check import results_of

from ragen_agents.rollout import Episode

LEVELS = "ragen_bench.leaderboard.entry.LEVELS"
SMALL = 8
ENTRIES = Path(__file__).parents[2] / "leaderboards"


def copy_of(name, root):
    return Path(shutil.copytree(ENTRIES / name, root / name))


def small_copy(name, root, levels=SMALL):
    """Copy an entry with its first levels alone, for tests that set `LEVELS` to as many."""
    return Path(shutil.copytree(_small(name, levels), root / name))


@cache
def _small(name, levels):
    folder = copy_of(name, Path(tempfile.mkdtemp(prefix="small-entry-")))
    atexit.register(shutil.rmtree, folder.parent)
    episodes = [e for e in read(folder) if e["instance"]["index"] < levels]
    write(folder, episodes)
    results = results_of(map(Episode.model_validate_json, map(json.dumps, episodes)))

    def shorten(entry):
        entry["config"]["suite"]["episodes"] = levels
        entry["results"] = {game: result.model_dump() for game, result in results.items()}

    change(folder, shorten)
    return folder


def unpack(folder):
    return lzma.decompress((folder / "episodes.jsonl.xz").read_bytes())


def pack(folder, data):
    (folder / "episodes.jsonl.xz").write_bytes(lzma.compress(data, preset=0))
    change(folder, lambda entry: entry.update(episodes_sha256=hashlib.sha256(data).hexdigest()))


def change(folder, edit):
    path = folder / "entry.json"
    entry = json.loads(path.read_text())
    edit(entry)
    path.write_text(json.dumps(entry, indent=1))


def read(folder):
    return [json.loads(line) for line in unpack(folder).splitlines()]


def write(folder, episodes):
    lines = [json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in episodes]
    pack(folder, "".join(f"{line}\n" for line in lines).encode())


def as_model(folder, name, reply=None):
    """Turn the entry of a control into one that a model could have made."""
    moved = folder.rename(folder.with_name(name))
    episodes = read(moved)
    for episode in episodes:
        episode["agent"] = name
        for turn in episode["turns"]:
            turn["reply_tokens"], turn["prompt_tokens"] = 20, 200
            if reply is not None:
                turn["reply"] = re.sub(r"(?<=<think>)[^<]*", lambda _: reply, turn["reply"], count=1)
    write(moved, episodes)

    def rename(entry):
        entry["about"].update(name=name, title=name.title())
        entry["config"]["agents"][0]["name"] = name
        for game, result in entry["results"].items():
            own = [e for e in episodes if e["task"] == game]
            result["reply_tokens"] = 20 * sum(len(e["turns"]) for e in own) / len(own)

    change(moved, rename)
    return moved
