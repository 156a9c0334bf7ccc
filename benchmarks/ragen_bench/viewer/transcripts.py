"""Show conversations without a board: the samples of a training run, and matches seat by seat."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ragen_agents.rollout.episode import MatchRecord, SeatRecord
from ragen_agents.run_files.records import read_lines
from ragen_bench.console.escaping import escape_unprintable
from ragen_bench.evaluation.match_table import MatchRun
from ragen_bench.viewer.templates import new_site, page_templates, refuse_other_folder, write_page
from ragen_envs.conversation import EndReason
from ragen_envs.errors import RagenError

SAMPLES: Final = "samples.jsonl"
"""File of a training run for people to read."""
_FIELDS: Final = ("iteration", "kind", "success", "return", "end", "messages", "rewards")

Transcript = dict[str, Any]
"""One conversation: ``name``, ``of`` (what the first filter chooses), ``kind`` (what the second does),
``success``, ``return``, ``end``, ``error``, and ``messages``, each with ``role``, ``content``, a ``note`` and
the ``reasoning`` that came apart from it."""


def write_transcript_pages(
    title: str, filters: tuple[str, str], transcripts: list[Transcript], out: Path, notes: Sequence[str] = ()
) -> None:
    """Write one page that shows conversations, in the place of an older one."""
    if not transcripts:
        raise RagenError(f"'{title}' has no conversations yet")
    refuse_other_folder(out)
    templates = page_templates()
    templates.globals.update(base="run_base.html.j2", run=title)
    values = {"filters": filters, "transcripts": transcripts, "notes": notes}
    with new_site(out) as new:
        write_page(templates, new, "index.html", "transcripts.html", **values)


def read_training_samples(folder: Path) -> list[Transcript]:
    """Return the sampled trajectories of a training run; a last line that was cut off is left out."""
    lines = read_lines(folder / SAMPLES, *_FIELDS)
    return [_sample(number, line) for number, line in enumerate(lines)]


def _reward_note(parts: dict[str, float]) -> str:
    """Return the parts of a turn's reward: the game's, and those of the rest that are not 0."""
    shown = {name: value for name, value in parts.items() if name == "game" or value}
    return ", ".join(f"{'reward' if name == 'game' else name} {value:g}" for name, value in shown.items())


def _sample(number: int, line: dict[str, Any]) -> Transcript:
    rewards = iter(line["rewards"])
    messages = []
    for message in line["messages"]:
        reward = next(rewards, None) if message["role"] == "assistant" else None
        messages.append(_message(message["role"], message["content"], _reward_note(reward or {})))
    return {
        "name": f"sample {number}",
        "of": f"iteration {int(line['iteration'])}",
        "kind": line["kind"],
        "success": bool(line["success"]),
        "return": round(line["return"], 6),
        "end": EndReason(line["end"]).words,
        "error": "",
        "messages": messages,
    }


def match_transcripts(run: MatchRun) -> list[Transcript]:
    """Return the conversations of all seats of a run of matches."""
    return [transcript for match in run.records for transcript in _seats(match)]


def _seats(match: MatchRecord) -> Iterator[Transcript]:
    for number, seat in enumerate(match.seats):
        others = [other.agent for place, other in enumerate(match.seats) if place != number]
        yield {
            "name": f"{match.key.level}, seat {number}: {seat.agent} with {', '.join(others)}",
            "of": match.task,
            "kind": seat.agent,
            "success": seat.success,
            "return": round(seat.episode_return, 6),
            "end": seat.end.words,
            "error": escape_unprintable(seat.error or ""),
            "messages": list(_said(seat)),
        }


def _said(seat: SeatRecord) -> Iterator[dict[str, str]]:
    yield _message("system", seat.system)
    for turn in seat.turns:
        yield _message("user", turn.user)
        note = f"reward {turn.reward:g}"
        if turn.defects:
            note += f"; {', '.join(turn.defects)}"
        yield _message("assistant", turn.reply, note, turn.reasoning or "")
    if seat.closing:
        yield _message("user", seat.closing)


def _message(role: str, content: str, note: str = "", reasoning: str = "") -> dict[str, str]:
    return {
        "role": role,
        "content": escape_unprintable(content, kept="\n\t"),
        "note": note,
        "reasoning": escape_unprintable(reasoning, kept="\n\t"),
    }
