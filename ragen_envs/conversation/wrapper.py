"""Any game with a text face as a conversation: text in, text out."""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from math import isfinite, nan
from typing import Any, NamedTuple, SupportsFloat, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from ragen_envs.conversation import prompt
from ragen_envs.conversation.demonstrations import (
    WorkedExample,
    example_messages,
    worked_examples,
)
from ragen_envs.conversation.end_reason import ConversationEnd, EndReason
from ragen_envs.conversation.game_errors import (
    check_face,
    checked_names,
    checked_text,
    incomplete,
    named_errors,
    raise_named,
)
from ragen_envs.conversation.parser import (
    MAX_REPLY_CHARACTERS,
    ParsedReply,
    parse_reply,
    whole_turn,
)
from ragen_envs.conversation.settings import ConversationSettings, resolve_symbols
from ragen_envs.conversation.state_text import state_text
from ragen_envs.conversation.words import WordReader
from ragen_envs.game.base import GameEnv
from ragen_envs.game.errors import GameError, NeverResetError, RagenError, ResetNeededError
from ragen_envs.game.free_text import FreeText
from ragen_envs.game.oracle import Action, Advice, Budget, RandomBaseline
from ragen_envs.game.text import IMAGE, TextFace, action_texts
from ragen_envs.game.word_game import WordGameEnv

Message = dict[str, str]
"""A chat message with the keys ``role`` and ``content``."""

Picture = NDArray[np.uint8]
"""An RGB picture, uint8 (H, W, 3)."""

MAX_TEXT: int = 1 << 20
Told = TypeVar("Told")
_ONE = 1 + 1e-9
"""A probability of 1, as rounded sums give it."""


class TurnResult(NamedTuple):
    """The result of one reply."""

    parsed: ParsedReply
    executed: tuple[Action, ...]
    """The actions that ran."""
    effective: tuple[bool, ...]
    """Whether each of them changed the state."""
    rewards: tuple[float, ...]
    """The game's reward of each."""
    penalty: float
    """The format penalty charged, 0 or negative."""
    end: ConversationEnd | None
    """Why the episode ended, or None if it has not ended."""
    text: str
    """The next user message, or the closing text."""

    @property
    def reward(self) -> float:
        """Sum of the game's rewards and the penalty."""
        return sum(self.rewards) + self.penalty


def _refuse_nesting(env: gym.Env[Any, Any]) -> None:
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, ConversationWrapper):
            raise RagenError(
                f"{env} is a conversation already; wrap the game itself, or give "
                "ragen_envs.conversation.make the text id with other settings"
            )
        layer = layer.env


def _check_pictures(env: gym.Env[Any, Any]) -> None:
    known = env.metadata.get("render_modes", ())
    if "rgb_array" not in known or env.render_mode != "rgb_array":
        raise RagenError(
            f"observation is 'image', but {env} has the render mode {env.render_mode!r} of "
            f"{', '.join(known)}; it must be rgb_array"
        )


class ConversationWrapper(gym.Wrapper[str, str, Any, Any], RecordConstructorArgs):
    """Turn a game into text in, text out. One step is one reply, with up to k actions.

    The observation after ``reset`` is the whole first prompt (rules, legend, limits, form of a reply,
    worked examples, state); after ``step`` it is the next user message. ``messages`` holds the chat
    that a model should be sent now. An action is any string; random samples of the action space are
    invalid replies.

    Info has the game's keys and ``action_is_valid`` (the reply has no defect), ``action_is_effective``
    (some action changed the state), ``defects`` and ``soft_defects`` (tuples of names), ``executed``
    (tuple of action names), ``end`` (why the episode ended, or ""), ``turns_left`` and ``actions_left``.
    Where the game has the key ``reason``, it is why an action of the reply is illegal, as the feedback says.

    ``terminated`` is True when the game ends and when the conversation does: its limits and its rule for
    invalid replies are part of the task, and every prompt states what is left. ``truncated`` is True when
    a time limit of the game, which no prompt mentions, cuts the episode short.

    ``ragen_envs.conversation.make`` makes one from an id, and ``ConversationVector`` plays many at once.

    Args:
        env: A game with a ``text`` face, not in a conversation already; its own time limit, if any, holds.
        **settings: Fields of ``ConversationSettings``.

    Raises:
        RagenError: The env is a conversation or has no text face, or a setting is unknown or wrong.
    """

    env: gym.Env[Any, Any]

    def __init__(self, env: gym.Env[Any, Any], **settings: Any) -> None:
        RecordConstructorArgs.__init__(self, **settings)
        gym.Wrapper.__init__(self, env)
        _refuse_nesting(env)
        try:
            self.settings = ConversationSettings(**settings)
        except TypeError:
            known = ", ".join(ConversationSettings.__dataclass_fields__)
            raise RagenError(
                f"unknown conversation setting among {', '.join(settings)}; known are {known}"
            ) from None
        face = getattr(env.unwrapped, "text", None)
        if face is None:
            raise RagenError(f"{env} has no text face; see docs/add-a-game.md")
        check_face(env.unwrapped, face)
        if self.settings.observation == IMAGE:
            _check_pictures(env)
        self._bare = env.unwrapped  # a chain of properties
        self.face: TextFace = face
        self.symbols = resolve_symbols(self.settings.symbols, face.vocabularies)
        self.observation_space: spaces.Space[str] = FreeText(MAX_TEXT)
        self.action_space: spaces.Space[str] = FreeText(MAX_REPLY_CHARACTERS)
        self.names: tuple[str, ...] = ()
        game = env.unwrapped
        self._reader = WordReader(game) if isinstance(game, WordGameEnv) else None
        self.end: ConversationEnd | None = None
        self.success = False
        self._played = 0
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
        """Start an episode of the game; options are the game's."""
        _, info = self.env.reset(seed=seed, options=options)
        self._played = 0
        self._turns.clear()
        self._actions_used = 0
        self.end = None
        self.success = self._read_flag(info, "success")
        game = self.unwrapped
        space = self.env.action_space
        count = int(space.n) if isinstance(space, spaces.Discrete) else None
        self.names = checked_names(game, self.face.actions(game), count)
        legend = checked_text(game, "legend", self.face.legend(self.symbols))
        rules = checked_text(game, "rules", self.face.rules(game))
        self.system = prompt.system_prompt(
            rules, legend, self.names, self.settings, in_words=self._reader is not None
        )
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
            self._game_info,
            result.parsed,
            action_texts(self.names, result.executed),
            any(result.effective),
        )
        truncated = result.end == EndReason.TRUNCATED
        terminated = result.end is not None and not truncated
        return result.text, result.reward, terminated, truncated, info

    def play(self, reply: str, truncated: bool = False) -> TurnResult:
        """Play one reply; ``truncated`` says that the model was cut off by its token limit.

        Raises:
            RagenError: See ``check``; or the game fails, and the message names its method.
        """
        settings = self.settings
        try:
            parsed = self._read(reply, truncated)
            run = self._allowed(parsed)
            effective, rewards = self._run(run)
        except Exception as error:  # not a context manager, which takes longer than some turns
            raise_named(self.unwrapped, error)
        executed = run[: len(rewards)]
        valid = parsed.is_valid
        penalty = 0.0 if valid else float(settings.format_penalty)
        self._turns.append((self.user, reply))
        self._played += 1
        self._actions_used += len(rewards)
        if self.end is None:
            self.end = self._limit_end(valid)
        ran = action_texts(self.names, executed)
        reason = self._told_reason(parsed) if parsed.reason else ""
        told = prompt.feedback(ran, effective, parsed.defects, sum(rewards) + penalty, reason)
        self.user = self._next_text(told)
        return TurnResult(parsed, executed, effective, rewards, penalty, self.end, self.user)

    def turn_value(self, reply: str, truncated: bool = False) -> float | None:
        """Return the largest probability of success after a reply, before chance events are known.

        Arguments and errors are those of ``play``; nothing is played. None if the game does not
        compute it. See ``GameEnv.turn_value``.
        """
        game = self.unwrapped
        with named_errors(game):
            parsed = self._read(reply, truncated)
            if not parsed.is_valid and self.settings.invalid == "end":
                return 0.0
            if not isinstance(game, GameEnv):
                return None
            value = self._asked(
                "turn_value", lambda: game.turn_value(self._allowed(parsed), self.budget)
            )
            if value is not None and not 0 <= value <= _ONE:
                raise self._incomplete(
                    f"turn_value returned {value!r:.80}, but must return a probability"
                )
            return value

    def _read(self, reply: str, truncated: bool) -> ParsedReply:
        self.check(reply)
        settings = self.settings
        most = min(settings.actions_per_turn, self._actions_left)
        return parse_reply(
            reply, self._reader or self.names, most, settings.think, truncated,
            prefix=settings.prefix, penalise_soft=settings.penalise_soft,
        )  # fmt: skip

    def _allowed(self, parsed: ParsedReply) -> tuple[Action, ...]:
        """Return the actions of a reply that may run."""
        return () if parsed.defects and self.settings.invalid != "penalise" else parsed.actions

    def _told_reason(self, parsed: ParsedReply) -> str:
        """Return why an action is illegal, or "" if that would tell what actions lead to that did not run."""
        return parsed.reason if self._allowed(parsed) or not parsed.actions else ""

    def check(self, reply: str) -> None:
        """Check that a reply can be played now.

        Raises:
            ResetNeededError: The episode has not begun or has ended.
            RagenError: The reply is not a string.
        """
        if not self.names:
            raise ResetNeededError("call reset() before the first reply")
        if self.end is not None:
            raise ResetNeededError(f"the episode has ended ({self.end}); call reset() first")
        if not isinstance(reply, str):
            raise RagenError(f"the reply is {reply!r:.80}, but must be a string")

    def _run(self, actions: tuple[Action, ...]) -> tuple[tuple[bool, ...], tuple[float, ...]]:
        effective: list[bool] = []
        rewards: list[float] = []
        reward: Any
        game = self._game
        truncated = False
        for action in actions:
            if game is not None:
                reward, terminated, changed = game.act(action)
                if terminated is not False or (changed is not True and changed is not False):
                    changed = self._flag("is_effective", changed)
                    terminated = self._flag("terminated", terminated)
            else:
                _, reward, ended, cut, self._game_info = self.env.step(action)
                changed = self._read_flag(self._game_info, "action_is_effective")
                terminated = self._flag("terminated", ended)
                truncated = self._flag("truncated", cut)
            effective.append(changed)
            if type(reward) is not float or not isfinite(reward):
                reward = self._finite(reward)
            rewards.append(reward)
            if terminated or truncated:
                self.end = EndReason.TERMINATED if terminated else EndReason.TRUNCATED
                break
        if actions:
            if game is not None:
                self._game_info = game.info(changed)
            self.success = self._read_flag(self._game_info, "success")
        return tuple(effective), tuple(rewards)

    def _finite(self, reward: Any) -> float:
        try:
            number = nan if isinstance(reward, str) else float(reward)
        except (TypeError, ValueError):
            number = nan
        if not isfinite(number):
            raise self._incomplete(f"reward is {reward!r:.80}, but must be a finite number")
        return number

    def _flag(self, name: str, value: Any) -> bool:
        """Return a flag that a step of the game has returned."""
        if not isinstance(value, bool | np.bool_):
            raise self._incomplete(f"{name} is {value!r:.80}, but must be a bool")
        return bool(value)

    def _read_flag(self, info: dict[str, Any], name: str) -> bool:
        """Return a flag that the info of every game must have."""
        if not isinstance(info, dict):
            raise self._incomplete(f"info is {info!r:.80}, but must be a dict")
        if name not in info:
            raise self._incomplete(f"info has no key '{name}'")
        if not isinstance(info[name], bool | np.bool_):
            raise self._incomplete(f"info has {name}={info[name]!r:.80}, but it must be a bool")
        return bool(info[name])

    def _incomplete(self, what: str) -> GameError:
        return incomplete(self.unwrapped, what)

    def _limit_end(self, valid: bool) -> ConversationEnd | None:
        settings = self.settings
        if not valid and settings.invalid == "end":
            return EndReason.INVALID
        spent = self._played == settings.max_turns or self._actions_used == settings.max_actions
        return EndReason.BUDGET if spent else None

    def _next_text(self, told: str) -> str:
        state = self.state_text()
        self._look()
        if self.end is not None:
            return prompt.final_prompt(told, self.success, state)
        left = self._actions_left
        asked = prompt.turn_prompt(state, self._played + 1, left, self.settings)
        return f"{told}\n{asked}"

    def state_text(self) -> str:
        """Return the game's current state in the format and symbols of the settings."""
        self._check_started()
        game, form = self._bare, self.settings.observation
        return checked_text(game, "observation", state_text(self.face, game, form, self.symbols))

    def _look(self) -> None:
        """Keep the picture of the state that the next user message tells."""
        if self.settings.observation == IMAGE:
            self._pictures.append(np.asarray(self.env.render(), np.uint8))

    def _check_started(self) -> None:
        if not self.names:
            raise NeverResetError("call reset() before using the conversation")

    @property
    def in_words(self) -> bool:
        """Whether actions are words instead of names from a fixed list."""
        return self._reader is not None

    @property
    def _actions_left(self) -> int:
        return self.settings.max_actions - self._actions_used

    @property
    def budget(self) -> Budget:
        """Turns and actions that are left."""
        self._check_started()
        return Budget(
            actions=self._actions_left,
            turns=self.settings.max_turns - self._played,
            actions_per_turn=self.settings.actions_per_turn,
        )

    @property
    def messages(self) -> list[Message]:
        """The chat that ends with the message to reply to, under the history setting."""
        self._check_started()
        examples = self.examples
        chat = [{"role": "system", "content": self.system}]
        if examples:
            chat += example_messages(examples)
        opening = len(chat)
        for user, reply in self._turns:
            chat.append({"role": "user", "content": user})
            turn = whole_turn(reply, self.settings.prefix)
            chat.append({"role": "assistant", "content": turn})
        chat.append({"role": "user", "content": self.user})
        if examples:
            first = chat[opening]["content"]
            chat[opening]["content"] = prompt.prompt_after_examples(first)
        return chat

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
        self._check_started()
        game = self.unwrapped
        if isinstance(game, WordGameEnv):
            with named_errors(game):
                return game.random_actions(rng, count)
        return tuple(rng.integers(len(self.names), size=count).tolist())

    def action_of(self, name: str) -> Action:
        """Return the action with a name: its number, or the name itself in games of words."""
        return self.names.index(name) if self._reader is None else name

    def oracle(self) -> Advice:
        """Return the game's optimum under the remaining turns and actions; after the end, the success.

        Raises:
            ResetNeededError: No episode has begun.
            RagenError: The game has no oracle, or its oracle fails or returns something else.
        """
        oracle = getattr(self.unwrapped, "oracle", None)
        if oracle is None:
            raise self._incomplete("class has no oracle(budget)")
        budget = self.budget
        if self.end is not None:
            return Advice((), float(self.success), 0.0)
        with named_errors(self.unwrapped):
            advice = self._asked("oracle", lambda: oracle(budget))
        if not isinstance(advice, Advice):
            raise self._incomplete(f"oracle returned {advice!r:.80}, but must return an Advice")
        if len(advice.actions) > budget.this_turn:
            raise self._incomplete(
                f"oracle returned {len(advice.actions)} actions, but must return at most {budget.this_turn} "
                "(budget.this_turn)"
            )
        self._check_advised(advice.actions)
        if advice.value > 0 and not advice.actions:
            raise self._incomplete(
                f"oracle returned the value {advice.value!r:.80} without actions; it must be 0 then"
            )
        return advice

    def _check_advised(self, actions: Sequence[Any]) -> None:
        """Check that an oracle's actions are texts, or numbers of actions that the game has."""
        kind: Any = str if self.in_words else int | np.integer
        for action in actions:
            if not isinstance(action, kind) or not (self.in_words or 0 <= action < len(self.names)):
                wanted = "texts" if self.in_words else f"from 0 to {len(self.names) - 1}"
                raise self._incomplete(
                    f"oracle returned the action {action!r:.80}, but its actions must be {wanted}"
                )

    def _asked(self, method: str, ask: Callable[[], Told]) -> Told:
        """Return what a method of the game says about its state, and check that the state is unchanged."""
        before = self.state_text()
        told = ask()
        if self.state_text() != before:
            raise self._incomplete(f"{method} changed the state of the game, but must not")
        return told

    def random_baseline(self) -> RandomBaseline | None:
        """Return the value of random play under the remaining budget; None if it is not available."""
        game = self.unwrapped
        if not isinstance(game, GameEnv):
            return None
        if self.end is not None:
            return RandomBaseline(float(self.success), 0.0)
        return self._asked("random_baseline", lambda: game.random_baseline(self.budget))

    def max_return(self) -> float:
        """Return the largest expected sum of the game's rewards under the remaining budget."""
        if self.end is not None:
            return 0.0
        game = self.unwrapped
        if not isinstance(game, GameEnv):
            return self.oracle().expected_return
        return self._asked("max_return", lambda: game.max_return(self.budget))

    def _infos(
        self, game: dict[str, Any], parsed: ParsedReply | None, executed: tuple[str, ...],
        effective: bool,
    ) -> dict[str, Any]:  # fmt: skip
        self._game_info = game
        reason = self._told_reason(parsed) if parsed is not None and "reason" in game else ""
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
