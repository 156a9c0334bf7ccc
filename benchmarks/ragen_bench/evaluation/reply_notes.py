"""Notes on agents whose replies are invalid, or whose episodes ended in an error: how many, and why."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import Episode
from ragen_bench.console.escaping import escape_unprintable
from ragen_bench.evaluation.run_table import Run
from ragen_envs.conversation import EndReason
from ragen_envs.conversation.prompt import describe_defect

_USUAL: Final = 0.95
"""Share of valid replies from which on nothing is said."""
_TRUSTED: Final = 0.5
"""Share of valid replies below which the table says little about the agent's play."""
_CAUSES: Final = 4
_LENGTH: Final = 160
"""Characters of the example reply."""


def reply_notes(run: Run) -> list[str]:
    """Return the notes on each agent of a run."""
    found: list[str] = []
    for agent in dict.fromkeys(agent for agent, _ in run.samples):
        games = {
            game: list(sample.values())
            for (name, game), sample in run.samples.items()
            if name == agent
        }
        if agent not in CONTROLS:
            found += _on_replies(agent, games, run)
        found += _on_errors(agent, [episode for sample in games.values() for episode in sample])
    return found


def _on_replies(agent: str, games: dict[str, list[Episode]], run: Run) -> Iterator[str]:
    shares = {game: _valid(episodes) for game, episodes in games.items()}
    low = {game: share for game, share in shares.items() if share < _USUAL}
    if not low:
        return
    turns = [turn for game in low for episode in games[game] for turn in episode.turns]
    causes = Counter(defect for turn in turns for defect in turn.defects)
    why = ", ".join(
        f"{describe_defect(cause)} ({count})" for cause, count in causes.most_common(_CAUSES)
    )
    where = ", ".join(f"{100 * share:.0f}% on {game}" for game, share in low.items())
    most = causes.most_common(1)[0][0]
    reply = next(turn.reply for turn in turns if most in turn.defects)
    yield f"valid replies of {agent}: {where}; defects: {why}; example: {_quoted(reply)}"
    if hidden := [turn for turn in turns if not turn.reply.strip() and turn.reasoning]:
        yield (
            f"{len(hidden)} of {len(turns)} replies of {agent} are empty, with all of the text in the "
            "server's reasoning field; raise --max-reply-tokens, or start the server without a "
            f"reasoning parser; example of that text: {_quoted(hidden[0].reasoning or '')}"
        )
    if min(low.values()) < _TRUSTED:
        yield (
            f"warning: most replies of {agent} are invalid on {_games_below(low)}, so its success there "
            f"says little about its play; ragen view {run.folder} shows them all{_advice(run, low)}"
        )


def _advice(run: Run, low: dict[str, float]) -> str:
    """Return what to try next: worked examples, unless the games have them already."""
    tasks = run.config.suite.tasks
    if all(tasks[game].settings.get("demonstrations") for game in low):
        return ""
    return ", and --setting demonstrations=2 shows the model how to reply"


def _games_below(shares: dict[str, float]) -> str:
    return ", ".join(game for game, share in shares.items() if share < _TRUSTED)


def _on_errors(agent: str, episodes: Sequence[Episode]) -> Iterator[str]:
    failed = [episode.error for episode in episodes if episode.error is not None]
    overflows = sum(episode.end is EndReason.OVERFLOW for episode in episodes)
    if failed:
        share = f"{len(failed)} of {len(episodes)} episodes of {agent} ended in an error"
        yield f"{share} and count as not solved; example: {_quoted(failed[0])}"
    if overflows:
        share = f"{overflows} of {len(episodes)} episodes of {agent}"
        yield f"{share} outgrew the model's context and count as not solved"


def _valid(episodes: Sequence[Episode]) -> float:
    replies = [not turn.defects for episode in episodes for turn in episode.turns]
    return sum(replies) / len(replies) if replies else 1.0


def _quoted(text: str) -> str:
    """Return the beginning of a text in quotes, on one line, without what a terminal would act on."""
    line = escape_unprintable(" ".join(text.split()))
    return f'"{line if len(line) <= _LENGTH else line[: _LENGTH - 1] + "…"}"'
