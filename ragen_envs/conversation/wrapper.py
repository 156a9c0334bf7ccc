"""Play any game with a text face as a conversation: text in, text out."""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, SupportsFloat, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from ragen_envs.conversation import prompt
from ragen_envs.conversation.demonstrations import WorkedExample, worked_examples
from ragen_envs.conversation.game_errors import checked_names, incomplete, named_errors
from ragen_envs.conversation.parser import MAX_REPLY_CHARACTERS, ParsedReply, parse_reply
from ragen_envs.conversation.protocol import (
    MAX_TEXT,
    ConversationEnd,
    EndReason,
    Message,
    Picture,
    TurnResult,
)
from ragen_envs.conversation.settings import ConversationSettings, rename_actions, resolve_symbols
from ragen_envs.errors import RagenError, ResetNeededError
from ragen_envs.game.base import GameEnv
from ragen_envs.game.claims import Claim, check_thought
from ragen_envs.game.free_text import FreeText
from ragen_envs.game.oracle import Action, Advice, Budget, RandomBaseline
from ragen_envs.game.text import IMAGE, OwnText, action_texts, explain
from ragen_envs.game.word_game import WordGameEnv

_Answer = TypeVar("_Answer")


def _check_env(env: gym.Env[Any, Any], settings: ConversationSettings) -> None:
    """Raise `RagenError` if an env cannot be played as a conversation with these settings."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, ConversationWrapper):
            raise RagenError(
                f"{env} is a conversation already; wrap the game itself, or give "
                "ragen_envs.conversation.make the text id with other settings"
            )
        layer = layer.env
    if not isinstance(layer, GameEnv):
        raise RagenError(
            f"{env} has no text face: ragen_envs.conversation.make gives it one, or see docs/add-a-game.md"
        )
    if settings.observation == IMAGE and env.render_mode != "rgb_array":
        raise RagenError(
            f"observation is 'image', but {env} has the render mode {env.render_mode!r}; it must be rgb_array"
        )


def _success(info: dict[str, Any]) -> bool | None:
    success = info["success"]
    return None if success is None else bool(success)


class ConversationWrapper(gym.Wrapper[str, str, Any, Any], RecordConstructorArgs):
    """Turn a game into text in, text out. One step is one reply, with up to k actions.

    The observation after ``reset`` is the whole first prompt (rules, legend, limits, form of a reply, worked
    examples, state); after ``step`` it is the next user message. ``messages`` holds the chat that a model
    should be sent now. An action is any string; random samples of the action space are invalid replies.

    Info has the game's keys and ``action_is_valid`` (the reply has no defect), ``action_is_effective`` (some
    action changed the state), ``defects`` and ``soft_defects`` (tuples of names), ``executed`` (tuple of
    action names), ``end`` (why the episode ended, or ""), ``turns_left`` and ``actions_left``. Where the game
    has the key ``reason``, it is why an action of the reply is illegal, as the feedback says.

    ``terminated`` is True when the game ends and when the conversation does: its limits and its rule for
    invalid replies are part of the task, and every prompt states what is left. ``truncated`` is True when
    a time limit of the game, which no prompt mentions, cuts the episode short.

    ``ragen_envs.conversation.make`` makes one from an id.

    Args:
        env: A game with a ``text`` face, not in a conversation already; its own time limit, if any, holds.
        **settings: Fields of ``ConversationSettings``.

    Raises:
        RagenError: The env is a conversation or has no text face, or a setting has a wrong value.
    """

    env: gym.Env[Any, Any]

    def __init__(self, env: gym.Env[Any, Any], **settings: Any) -> None:
        RecordConstructorArgs.__init__(self, **settings)
        gym.Wrapper.__init__(self, env)
        self.settings = ConversationSettings(**settings)
        _check_env(env, self.settings)
        game: Any = env.unwrapped
        self._bare: GameEnv[Any] = game  # unwrapped is a chain of properties
        self.face: OwnText = game.text
        with named_errors(game):
            self.symbols = resolve_symbols(self.settings.symbols, self.face.vocabularies)
        self.observation_space: spaces.Space[str] = FreeText(MAX_TEXT)
        self.action_space: spaces.Space[str] = FreeText(MAX_REPLY_CHARACTERS)
        self.names: tuple[str, ...] = ()
        self._word_game = game if isinstance(game, WordGameEnv) else None
        if self.in_words and self.settings.action_names:
            raise RagenError(f"action_names cannot be set for {game}, whose actions are words")
        self.end: ConversationEnd | None = None
        self.success: bool | None = False
        """Whether the goal is reached; None in an environment that does not say."""
        self._played = self._actions_used = 0
        last = min(self.settings.history_turns, sys.maxsize - 1)  # a longer queue cannot be made
        kept = {"full": None, "last": last, "none": 0}[self.settings.history]
        # What the history setting never shows again is not kept.
        self._turns = deque[tuple[str, str]](maxlen=kept)
        self._pictures = deque[Picture](maxlen=None if kept is None else kept + 1)
        self._examples: tuple[WorkedExample, ...] | None = None
        # A game without wrappers of its own is played without making what nobody reads.
        self._game: GameEnv[Any] | None = None
        if isinstance(env, GameEnv) and type(env).step is GameEnv.step:
            self._game = env

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode of the game; options and errors are the game's."""
        _, info = self.env.reset(seed=seed, options=options)
        self._played = self._actions_used = 0
        self._turns.clear()
        self.end = None
        self.success = _success(info)
        game = self._bare
        space = self.env.action_space
        count = int(space.n) if isinstance(space, spaces.Discrete) else None
        names = checked_names(game, self.face.actions(game), count)
        self.names = rename_actions(names, self.settings.action_names)
        self.system = prompt.system_prompt(
            self.face.rules(game), self.face.legend(self.symbols), self.names, self.settings,
            in_words=self.in_words,
        )  # fmt: skip
        self._pictures.clear()
        self._look()
        left = self.settings.max_actions
        self.user = prompt.turn_prompt(self.state_text(), 1, left, self.settings)
        prompt_text = "\n\n".join(message["content"] for message in self.messages)
        return prompt_text, self._infos(info, None, (), effective=False)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play one reply; see the class."""
        result = self.play(action)
        info = self._infos(
            self._game_info, result.parsed, action_texts(self.names, result.executed), any(result.effective)
        )
        truncated = result.end == EndReason.TRUNCATED
        terminated = result.end is not None and not truncated
        return result.text, result.reward, terminated, truncated, info

    def play(self, reply: str, truncated: bool = False) -> TurnResult:
        """Play one reply; ``truncated`` says that the model was cut off by its token limit.

        Raises:
            ResetNeededError: The episode has not begun or has ended.
            GameError: The game fails; the message names its method.
        """
        settings = self.settings
        with named_errors(self._bare):
            parsed = self._read(reply, truncated)
            run = self._allowed(parsed)
            effective, rewards = self._run(run)
        executed = run[: len(rewards)]
        valid = parsed.is_valid
        penalty = 0.0 if valid else float(settings.format_penalty)
        self._turns.append((self.user, reply))
        self._played += 1
        self._actions_used += len(rewards)
        if self.end is None:
            self.end = self._limit_end(valid)
        ran = action_texts(self.names, executed)
        reward = sum(rewards) + penalty
        reason = self._reason(parsed)
        feedback = prompt.feedback(ran, effective, parsed.defects, reward, settings, reason)
        with named_errors(self._bare):
            self.user = self._next_text(feedback)
        return TurnResult(parsed, executed, effective, rewards, penalty, self.end, self.user)

    def claims(self, reply: str, truncated: bool = False) -> tuple[Claim, ...]:
        """Return the claims of the thought of a reply about the game, with the places in the reply.

        Arguments and errors are those of ``play``; nothing is played. () if the game cannot check thoughts.
        """
        with named_errors(self._bare):
            parsed = self._read(reply, truncated)
            claims = check_thought(self._bare, parsed.thought, self._allowed(parsed), self.names)
        start = parsed.thought_start
        return tuple(c._replace(start=start + c.start, end=start + c.end) for c in claims)

    def turn_value(self, reply: str, truncated: bool = False) -> float | None:
        """Return the largest probability of success after a reply, before chance events are known.

        Arguments and errors are those of ``play``; nothing is played. None if the game does not
        compute it. See ``GameEnv.turn_value``.
        """
        game = self._bare
        with named_errors(game):
            parsed = self._read(reply, truncated)
            if not parsed.is_valid and self.settings.invalid == "end":
                return 0.0
            return self._ask("turn_value", lambda: game.turn_value(self._allowed(parsed), self.budget))

    def _read(self, reply: str, truncated: bool) -> ParsedReply:
        if not self.names:
            raise ResetNeededError("call reset() before the first reply")
        if self.end is not None:
            raise ResetNeededError(f"the episode has ended ({self.end}); call reset() first")
        settings = self.settings
        most = min(settings.actions_per_turn, self._actions_left)
        names = self.names if self._word_game is None else self._word_game
        return parse_reply(
            reply, names, most, settings.think, truncated,
            prefix=settings.prefix, penalise_soft=settings.penalise_soft,
        )  # fmt: skip

    def _allowed(self, parsed: ParsedReply) -> tuple[Action, ...]:
        """Return the actions of a reply that may run."""
        return () if parsed.defects and self.settings.invalid != "penalise" else parsed.actions

    def _reason(self, parsed: ParsedReply) -> str:
        """Return why an action is illegal, or "" where that would tell the effects of unplayed actions."""
        return parsed.reason if self._allowed(parsed) or not parsed.actions else ""

    def _run(self, actions: tuple[Action, ...]) -> tuple[tuple[bool, ...], tuple[float, ...]]:
        effective: list[bool] = []
        rewards: list[float] = []
        reward: Any
        game = self._game
        truncated = False
        for action in actions:
            if game is not None:
                reward, terminated, changed = game.act(action)
            else:
                _, reward, terminated, truncated, self._game_info = self.env.step(action)
                changed = self._game_info["action_is_effective"]
            if not isfinite(reward):
                raise incomplete(self._bare, f"reward is {reward}, but must be a finite number")
            effective.append(bool(changed))
            rewards.append(float(reward))
            if terminated or truncated:
                self.end = EndReason.TERMINATED if terminated else EndReason.TRUNCATED
                break
        if actions:
            if game is not None:
                self._game_info = game.info(effective[-1])
            self.success = _success(self._game_info)
        return tuple(effective), tuple(rewards)

    def _limit_end(self, valid: bool) -> ConversationEnd | None:
        settings = self.settings
        if not valid and settings.invalid == "end":
            return EndReason.INVALID
        spent = self._played == settings.max_turns or self._actions_used == settings.max_actions
        return EndReason.BUDGET if spent else None

    def _next_text(self, feedback: str) -> str:
        state = self.state_text()
        self._look()
        if self.end is not None:
            return prompt.final_prompt(feedback, self.success, state)
        left = self._actions_left
        request = prompt.turn_prompt(state, self._played + 1, left, self.settings)
        return f"{feedback}\n{request}"

    def state_text(self) -> str:
        """Return the game's current state in the format and symbols of the settings."""
        return prompt.state_text(self.face, self._bare, self.settings.observation, self.symbols)

    def _look(self) -> None:
        """Keep the picture of the state that the next user message describes."""
        if self.settings.observation == IMAGE:
            self._pictures.append(np.asarray(self.env.render(), np.uint8))

    @property
    def in_words(self) -> bool:
        """Whether actions are words instead of names from a fixed list."""
        return self._word_game is not None

    @property
    def _actions_left(self) -> int:
        return self.settings.max_actions - self._actions_used

    @property
    def budget(self) -> Budget:
        """Turns and actions that are left."""
        return Budget(
            actions=self._actions_left,
            turns=self.settings.max_turns - self._played,
            actions_per_turn=self.settings.actions_per_turn,
        )

    @property
    def messages(self) -> list[Message]:
        """The chat that ends with the message to reply to, under the history setting."""
        turns = [*self._turns, (self.user, "")]
        if self.examples:
            first, reply = turns[0]
            turns[0] = prompt.prompt_after_examples(first), reply
        shown = [(prompt.example_prompt(each.user, n), each.reply) for n, each in enumerate(self.examples)]
        return prompt.chat(self.system, [*shown, *turns], self.settings.prefix)

    @property
    def examples(self) -> tuple[WorkedExample, ...]:
        """The worked examples that precede the episode's own turns; see the setting ``demonstrations``."""
        if self._examples is None:
            self._examples = worked_examples(self.unwrapped, self.settings)
        return self._examples

    @property
    def pictures(self) -> list[Picture]:
        """The pictures that belong to the user messages of ``messages``; [] without observation "image"."""
        shown = [example.picture for example in self.examples if example.picture is not None]
        return [*shown, *self._pictures]

    def random_actions(self, rng: np.random.Generator, count: int) -> tuple[Action, ...]:
        """Return ``count`` random actions: uniform and independent, or, for words, each legal in turn."""
        if self._word_game is not None:
            with named_errors(self._word_game):
                return self._word_game.random_actions(rng, count)
        return tuple(rng.integers(len(self.names), size=count).tolist())

    def action_of(self, name: str) -> Action:
        """Return the action with a name: its number, or the name itself in games of words."""
        return name if self.in_words else self.names.index(name)

    def oracle(self) -> Advice:
        """Return the game's optimum under the remaining turns and actions; after the end, the success.

        Raises:
            RagenError: The oracle fails.
        """
        game = self._bare
        if self.end is not None:
            return Advice((), float(bool(self.success)), 0.0)
        with named_errors(game):
            advice: Advice = self._ask("oracle", lambda: game.oracle(self.budget))
            return advice

    def _ask(self, method: str, ask: Callable[[], _Answer]) -> _Answer:
        """Call a method of the game, and check that it leaves the state unchanged."""
        before = self.state_text()
        answer = ask()
        if self.state_text() != before:
            raise incomplete(self._bare, f"{method} changed the state of the game, but must not")
        return answer

    def explain(self, actions: Sequence[Action]) -> str:
        """Return a thought that leads to the next actions; see `ragen_envs.game.text.explain`."""
        return explain(self._bare, actions, self.budget, self.settings.action_names)

    def random_baseline(self) -> RandomBaseline | None:
        """Return the value of random play under the remaining budget; None if it is not available."""
        game = self._bare
        if self.end is not None:
            return RandomBaseline(float(bool(self.success)), 0.0)
        return self._ask("random_baseline", lambda: game.random_baseline(self.budget))

    def max_return(self) -> float:
        """Return the largest expected sum of the game's rewards under the remaining budget."""
        if self.end is not None:
            return 0.0
        game = self._bare
        return self._ask("max_return", lambda: game.max_return(self.budget))

    def _infos(
        self, game: dict[str, Any], parsed: ParsedReply | None, executed: tuple[str, ...],
        effective: bool,
    ) -> dict[str, Any]:  # fmt: skip
        self._game_info = game
        reason = self._reason(parsed) if parsed is not None and "reason" in game else ""
        return {
            **game,
            **({"reason": reason} if reason else {}),
            "action_is_valid": parsed is None or parsed.is_valid,
            "action_is_effective": effective,
            "defects": () if parsed is None else tuple(str(d) for d in parsed.defects),
            "soft_defects": () if parsed is None else tuple(str(d) for d in parsed.soft_defects),
            "executed": executed,
            "end": "" if self.end is None else self.end.value,
            "turns_left": self.budget.turns,
            "actions_left": self.budget.actions,
        }
