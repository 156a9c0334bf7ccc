"""Lay out episodes for the viewer: the board after every action, beside the replies."""

from collections.abc import Iterator
from typing import Any

from ragen_agents.rollout import Episode, TurnRecord
from ragen_agents.rollout.claims import CheckedThought
from ragen_agents.rollout.episode_runner import make_env
from ragen_bench.analysis.ledger import Decision, Ledger
from ragen_bench.analysis.thoughts import check_episode
from ragen_bench.console.escaping import escape_unprintable
from ragen_bench.runs.records import replay_spec
from ragen_envs.conversation import ConversationWrapper
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.game.oracle import Action, Budget
from ragen_envs.game.text import GRID, action_texts
from ragen_envs.games.frozen_lake import dynamics as lake
from ragen_envs.games.frozen_lake.env import FrozenLakeEnv


def show_episode(episode: Episode, judged: Ledger | None) -> dict[str, Any]:
    """Return an episode as plain data.

    ``frames`` has the start of every turn and each action after it: ``turn`` (from 0, one beyond the
    last for the closing board), ``action``, ``reward``, ``effective``, ``slipped`` where the ice led
    elsewhere, and the board as rows of the game's standard symbols, or, for games without a board, its
    words. The first frame of a turn has ``best``, the oracle's actions, or None beyond its limit. Each turn
    has its decision of the ledger, if there is one, and the claims of its thought.
    """
    try:
        frames = list(_frames(episode))
    except RagenError:
        raise
    except ValueError as error:  # of actions that the game does not have, or without their rewards
        raise RagenError(f"{episode.key} does not replay; see ragen verify") from error
    decisions = [None] * len(episode.turns) if judged is None else judged.decisions
    thoughts = check_episode(episode) or [CheckedThought((), ())] * len(episode.turns)
    return {
        "index": episode.instance.index,
        "name": name_in_viewer(episode),
        "success": episode.success if episode.has_success else None,
        "end": episode.end.words,
        "return": round(episode.episode_return, 6),
        "optimum": None if episode.optimal_success is None else round(episode.optimal_success, 6),
        "key": episode.instance.key,
        "error": escape_unprintable(episode.error or ""),
        "system": episode.system,
        "closing": episode.closing,
        "turns": [
            {**_turn(turn), "decision": decision and _decision(decision), "claims": _claims(turn, thought)}
            for turn, decision, thought in zip(episode.turns, decisions, thoughts, strict=True)
        ],
        "frames": frames,
    }


def name_in_viewer(episode: Episode) -> str:
    """Return an episode's name in lists and addresses: the level, and from the second one the attempt."""
    level = str(episode.instance.index)
    return level if episode.attempt == 0 else f"{level}-{episode.attempt + 1}"


def first_frame(episode: Episode, turn: int) -> int:
    """Return the number of the frame with which a turn, counted from 0, begins."""
    return sum(1 + len(before.executed) for before in episode.turns[:turn])


def _decision(decision: Decision) -> dict[str, Any]:
    rounded = {name: round(getattr(decision, name), 6) for name in ("value", "after", "regret", "luck")}
    return {**rounded, "blunder": decision.blunder}


def _turn(turn: TurnRecord) -> dict[str, Any]:
    return {
        "user": turn.user,
        "reply": escape_unprintable(turn.reply, kept="\n\t"),
        "reasoning": escape_unprintable(turn.reasoning or "", kept="\n\t"),
        "defects": list(turn.defects),
        "soft_defects": list(turn.soft_defects),
        "penalty": turn.penalty,
        "actions": list(turn.actions),
        "tokens": turn.reply_tokens,
    }


def _claims(turn: TurnRecord, thought: CheckedThought) -> list[Any]:
    """Return the span of each claim in the reply as shown, whether it is true, and the truth."""
    return [
        [_shown(turn.reply[: claim.start]), _shown(turn.reply[: claim.end]), claim.true, claim.fact]
        for claim in thought.claims
        if claim.true is not None
    ]


def _shown(text: str) -> int:
    """Return the length of a text as a script counts it, in UTF-16."""
    return len(escape_unprintable(text, kept="\n\t").encode("utf-16-le")) // 2


def _frames(episode: Episode) -> Iterator[dict[str, Any]]:
    env = make_env(replay_spec(episode))
    left = env.budget
    for number, turn in enumerate(episode.turns):
        yield {"turn": number, "best": _best(env, left), "board": _board(env)}
        for name, reward, effective in zip(turn.executed, turn.rewards, turn.effective, strict=True):
            slipped = _act(env, env.action_of(name))
            yield {
                "turn": number, "action": name, "reward": reward, "effective": effective,
                "slipped": slipped, "board": _board(env),
            }  # fmt: skip
        left = Budget(left.actions - len(turn.executed), left.turns - 1, left.actions_per_turn)
    if not episode.turns:
        yield {"turn": 0, "best": _best(env, left), "board": _board(env)}


def _act(env: ConversationWrapper, action: Action) -> bool:
    """Play an action and return whether the walker slipped to another cell than it leads to."""
    game: Any = env.unwrapped
    if not isinstance(game, FrozenLakeEnv) or isinstance(action, str):
        game.act(action)
        return False
    meant = lake.walk(game.position, action, game.height, game.width)
    game.act(action)
    return bool(game.position != meant)


def _best(env: ConversationWrapper, left: Budget) -> list[str] | None:
    """Return the oracle's actions for a turn, under what is left of the budget; None beyond its limit."""
    try:
        advice = env.unwrapped.oracle(left)  # type: ignore[attr-defined]
    except SolverLimitError:
        return None
    return list(action_texts(env.names, advice.actions))


def _board(env: ConversationWrapper) -> list[str]:
    return env.face.observation(env.unwrapped, GRID, env.face.vocabularies["standard"]).split("\n")
