"""Write the notes below a table: invalid replies, failures, numbers that cannot be right."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from ragen_agents.policies import CONTROLS
from ragen_agents.rollout import Episode, SeatRecord, TurnRecord
from ragen_bench.config.run_config import AnyConfig, MatchConfig
from ragen_bench.console.escaping import escape_unprintable
from ragen_bench.evaluation.run_table import REFERENCE, Run, level_clusters, notes
from ragen_bench.runs.environments import version_notes
from ragen_bench.stats.scores import at_most_by_chance
from ragen_envs.conversation import Defect, EndReason
from ragen_envs.conversation.prompt import describe_defect
from ragen_envs.registration import spec_of

_USUAL: Final = 0.95
"""Share of valid replies from which on nothing is said."""
_TRUSTED: Final = 0.5
"""Share of valid replies below which the table says little about the agent's play."""
_CAUSES: Final = 4
"""Most kinds of defects that are counted for a game."""
_LENGTH: Final = 160
"""Characters of the example reply."""


_Trouble = Literal["length", "reasoning", "think", "opened think", "unexpected think", "format"]
"""The trouble of an agent whose replies are invalid: they are cut off by the token limit; empty, with all of
the text in the server's reasoning field; lack ``<think>``, end a thought that the model's turn began with, or
have ``<think>`` although the setting ``think`` is false, and nothing else; or anything else."""
Played = Episode | SeatRecord
"""An episode, or a seat of a match."""


def run_notes(run: Run, left_out: Sequence[str] = ()) -> list[str]:
    """Return all notes below the table of a run; those given come after the ones on how it was played."""
    before = [*notes(run), *version_notes(run.folder), *left_out]
    samples = {key: list(sample.values()) for key, sample in run.samples.items()}
    return [*before, *contradiction_notes(run), *notes_on_replies(samples, run.folder, run.config)]


def notes_on_replies(
    samples: Mapping[tuple[str, str], Sequence[Played]], folder: Path, config: AnyConfig
) -> list[str]:
    """Return the notes on the replies and errors of each agent."""
    lines: list[str] = []
    for agent in dict.fromkeys(agent for agent, _ in samples):
        games = {game: sample for (name, game), sample in samples.items() if name == agent}
        if agent not in CONTROLS:
            lines += _on_replies(agent, games, folder, config)
        played = [each for sample in games.values() for each in sample]
        filtered = [turn.filtered for each in played for turn in each.turns]
        if any(filtered):
            lines.append(
                f"{sum(filtered)} of {len(filtered)} replies of {agent} were withheld by a content filter "
                "and count as empty replies"
            )
        lines += error_notes(agent, played, "seats" if isinstance(config, MatchConfig) else "episodes")
    return lines


def _on_replies(
    agent: str, games: Mapping[str, Sequence[Played]], folder: Path, config: AnyConfig
) -> Iterator[str]:
    shares = {game: _valid(episodes) for game, episodes in games.items()}
    low = {game: share for game, share in shares.items() if share < _USUAL}
    if not low:
        return
    turns = [turn for game in low for episode in games[game] for turn in episode.turns]
    defects = {game: _defects(games[game]) for game in low}
    where = ", ".join(
        f"{100 * low[game]:.0f}% on {game} ({_listed(found)})" for game, found in defects.items()
    )
    most = sum(defects.values(), Counter()).most_common(1)[0][0]
    example = _quoted(next(turn.reply for turn in turns if most in turn.defects))
    yield f"valid replies of {agent}: {where}; example of {describe_defect(most)}: {example}"
    if hidden := [turn for turn in turns if _trouble(turn) == "reasoning"]:
        yield (
            f"{len(hidden)} of {len(turns)} replies of {agent} are empty, with all of the text in the "
            "server's reasoning field; raise --max-reply-tokens, or start the server without a "
            f"reasoning parser; example of that text: {_quoted(hidden[0].reasoning or '')}"
        )
    if lost := [game for game, share in low.items() if share < _TRUSTED]:
        turns = [turn for game in lost for episode in games[game] for turn in episode.turns]
        yield (
            f"warning: most replies of {agent} are invalid on {', '.join(lost)}, so its success there "
            f"says little about its play; ragen view {folder} shows them all"
            f"{_advice(config, lost, turns)}"
        )


def _defects(episodes: Sequence[Played]) -> Counter[str]:
    return Counter(defect for episode in episodes for turn in episode.turns for defect in turn.defects)


def _listed(defects: Counter[str]) -> str:
    return ", ".join(f"{describe_defect(name)} {count}" for name, count in defects.most_common(_CAUSES))


def _advice(config: AnyConfig, games: Sequence[str], turns: Sequence[TurnRecord]) -> str:
    """Return advice on the most frequent trouble, or "" if the games follow it already."""
    troubles = Counter(_trouble(turn) for turn in turns if turn.defects)
    match troubles.most_common(1)[0][0]:
        case "reasoning":
            return ""
        case "length":
            cut = [turn for turn in turns if _trouble(turn) == "length"]
            if 2 * sum("</answer>" in turn.reply.lower() for turn in cut) > len(cut):
                return ", and --stop '</answer>' ends a reply after its answer"
            limit = config.suite.sampling.max_tokens
            return f", and a --max-reply-tokens above {limit} lets the model finish its replies"
        case "think":
            apart = any(turn.reasoning for turn in turns)
            why = ", as the server returns the reasoning separately" if apart else ""
            return f", and --setting think=false asks for replies without <think>{why}"
        case "opened think":
            return (
                ", and --setting think_prefix=true reads replies whose <think> the chat template or the "
                "server has written"
            )
        case "unexpected think":
            return ", and without --setting think=false the model may reply with <think>"
    tasks = [config.suite.tasks[game] for game in games]
    # Seats of a match do not have the setting, and games without an oracle have no examples.
    if isinstance(config, MatchConfig) or all(task.settings.get("demonstrations") for task in tasks):
        return ""
    if any(spec_of(task.env) is None for task in tasks):
        return ""
    has_bandit = any("Bandit" in task.env for task in tasks)
    beware = "; on the bandits, worked examples reveal the answer" if has_bandit else ""
    return f", and --setting demonstrations=2 shows the model how to reply{beware}"


def _trouble(turn: TurnRecord) -> _Trouble:
    if not turn.reply.strip() and turn.reasoning:
        return "reasoning"
    if Defect.TRUNCATED in turn.defects:
        return "length"
    if turn.defects == (Defect.NO_THINK,):
        return "opened think" if "</think>" in turn.reply.lower() else "think"
    return "unexpected think" if turn.defects == (Defect.UNEXPECTED_THINK,) else "format"


def error_notes(agent: str, episodes: Sequence[Played], units: str = "episodes") -> Iterator[str]:
    """Yield notes that count an agent's episodes, or seats, that an error or the context ended."""
    failed = [episode.error for episode in episodes if episode.error is not None]
    overflows = sum(episode.end is EndReason.OVERFLOW for episode in episodes)
    if failed:
        share = f"{len(failed)} of {len(episodes)} {units} of {agent} ended in an error"
        yield f"{share} and count as not solved; example: {_quoted(failed[0])}"
    if overflows:
        share = f"{overflows} of {len(episodes)} {units} of {agent}"
        yield f"{share} exceeded the model's context and count as not solved"


def all_error_notes(run: Run) -> list[str]:
    """Return the notes on the errors of each agent of a run."""
    played: dict[str, list[Episode]] = defaultdict(list)
    for (agent, _), sample in run.samples.items():
        played[agent] += sample.values()
    return [note for agent, episodes in played.items() for note in error_notes(agent, episodes)]


def _valid(episodes: Sequence[Played]) -> float:
    replies = [not turn.defects for episode in episodes for turn in episode.turns]
    return sum(replies) / len(replies) if replies else 1.0


def _quoted(text: str) -> str:
    """Return the beginning of a text in quotes, on one line, without what a terminal would act on."""
    line = escape_unprintable(" ".join(text.split()))
    return f'"{line if len(line) <= _LENGTH else line[: _LENGTH - 1] + "…"}"'


_ORACLE: Final = "oracle"
_CERTAIN: Final = 1 - 1e-9
_UNLIKELY: Final = 1e-6
"""Probability below which a result contradicts the numbers of a game."""


def contradiction_notes(run: Run) -> list[str]:
    """Return a note for each number of a game that the episodes contradict.

    Some outcomes are impossible: an episode that was solved without an action or although its optimum is
    0, or one that the agent ``oracle`` lost although it is 1. Others are improbable (p < 1e-6, exact):
    more successes than the optimum allows, fewer of the oracle, and successes of the random agent far from
    their exact expectation.
    """
    lines: list[str] = []
    for task in run.config.suite.tasks:
        played = {agent: list(s.values()) for (agent, name), s in run.samples.items() if name == task}
        lines += _impossible(task, played)
        for agent, episodes in played.items():
            lines += _improbable(task, agent, episodes)
    return lines


def _impossible(task: str, played: Mapping[str, Sequence[Episode]]) -> Iterator[str]:
    solved = [e for episodes in played.values() for e in episodes if e.success]
    if beyond := sum(e.optimal_success == 0 for e in solved):
        yield (f"{_episodes(beyond)} of {task} solved although the oracle's value is 0: the oracle is wrong")
    if idle := sum(not any(turn.executed for turn in e.turns) for e in solved):
        yield f"{_episodes(idle)} of {task} solved without an action: its success is wrong"
    if lost := sum(
        not e.success and (e.optimal_success or 0) >= _CERTAIN and not e.is_failure
        for e in played.get(_ORACLE, ())
    ):
        yield (f"{_episodes(lost)} of {task} lost by the oracle although its value is 1: the oracle is wrong")


def _improbable(task: str, agent: str, episodes: Sequence[Episode]) -> Iterator[str]:
    whole = [episode for episode in episodes if not episode.is_failure]
    tests = [("optimal_success", "optimum", agent == _ORACLE)]
    if agent == REFERENCE:
        tests.append(("random_success", "exact chance of random play", True))
    for field, name, below in tests:
        known = [value for episode in whole if (value := getattr(episode, field)) is not None]
        if not whole or len(known) < len(whole):
            continue
        solved, groups = sum(episode.success for episode in whole), level_clusters(whole)
        missed = [1 - value for value in known]
        many = at_most_by_chance(len(whole) - solved, missed, groups) < _UNLIKELY
        few = below and at_most_by_chance(solved, known, groups) < _UNLIKELY
        if many or few:
            yield (
                f"{agent} solved {solved} of {_episodes(len(whole))} of {task}, but its {name} is "
                f"{100 * sum(known) / len(known):.1f}%: too {'many' if many else 'few'} for chance "
                "(p < 1e-6), so one of the two is wrong"
            )


def _episodes(count: int) -> str:
    return f"{count} episode{'s' if count != 1 else ''}"
