"""Give any Gymnasium environment a text face: names of actions, readable observations, rules."""

import copy
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from ragen_envs.conversation.readable import Docstring, size_of, without_escapes, written
from ragen_envs.conversation.settings import count_names
from ragen_envs.errors import RagenError, SolverLimitError
from ragen_envs.game.base import GameEnv
from ragen_envs.game.oracle import Advice, Budget
from ragen_envs.game.word_game import LEGAL, Legality, WordGameEnv, illegal
from ragen_envs.levels.seeding import Rng

TEXT_SETTINGS: Final[tuple[str, ...]] = ("actions", "describe", "rules", "success")
"""Keywords of `TextWrapper` besides the env."""
MAX_NAMES: Final = 64
"""Most actions whose names are made here and listed in the prompt."""
MAX_NUMBERS: Final = 256
"""Most numbers of an observation that are written out without a function ``describe``."""
_STEPS: Final = 100
"""Most actions of an episode of an environment without a time limit."""


class TextWrapper(GameEnv[str]):
    """A Gymnasium environment as a game in words, for ``conversation.make`` and ``ConversationWrapper``.

    Its levels are seeds of the environment: split and index choose one, and each seed belongs to one split.
    The option ``noise`` of ``reset`` keeps the first state and replaces ``np_random`` afterwards. It has no
    oracle, so there is no optimum and no score. Actions that are texts, or that have several parts with more
    than 64 combinations, are words, as in a ``WordGameEnv``.

    Args:
        env: Its actions are Discrete, MultiDiscrete, MultiBinary or Text.
        actions: Names of the actions in the order of their numbers; for MultiDiscrete and MultiBinary, a list
            of names for each part. If left out, they are those of the environment's docstring, or numbers.
        describe: A function from an observation to a text. If left out, observations are texts as they are,
            what ``render`` returns with the render mode "ansi", or up to 256 numbers, written out.
        rules: The goal, the rules and the rewards. If left out, those of the docstring.
        success: When an episode is a success: a threshold of its return, or a function of the return and the
            info of the last step. If left out, it is ``info["success"]``, or else the environment's
            ``reward_threshold``; without both, success is None, and only returns count. A threshold that
            is not positive also needs the episode to have terminated.

    Raises:
        RagenError: Actions or observations cannot be written, or an argument has a wrong value.
    """

    def __new__(cls, env: gym.Env[Any, Any] | None = None, **settings: Any) -> "TextWrapper":
        """Create a game of words where actions cannot be listed. Copies are made without arguments."""
        listed = env is None or _is_listed(env.action_space, settings.get("actions"))
        return object.__new__(cls if listed else _WordTextWrapper)

    def __init__(
        self, env: gym.Env[Any, Any], *, actions: Sequence[Any] | None = None,
        describe: Callable[[Any], str] | None = None, rules: str | None = None,
        success: float | Callable[[float, Mapping[str, Any]], bool] | None = None,
    ) -> None:  # fmt: skip
        self.env, spec = env, env.spec
        self.metadata = {"render_modes": [], "render_fps": 4, **env.metadata}
        self._reads_success = success is None
        if success is None and spec:
            success = spec.reward_threshold
        if not callable(success) and not isinstance(success, int | float | None):
            raise RagenError(f"success is {success!r:.80}, but must be a number or a function")
        doc = Docstring(env)
        self._parts = _named_parts(env.action_space, actions, doc)
        self.action_names = self._names()
        super().__init__()
        self.distribution = spec.id if spec else type(env.unwrapped).__name__
        self.render_mode = env.render_mode
        self._success = success
        reads_numbers = not describe and not _is_text(env)
        self._describe = describe or self._usual_description(doc)
        self.rules = rules or doc.description(reads_numbers) or f"Play {self.distribution}."
        if not callable(success) and success is not None:
            ends = "" if success > 0 else "the game ends before your turns or actions are used up and "
            self.rules += f"\nYou succeed if {ends}your rewards sum to at least {success:.10g}."

    def _names(self) -> tuple[str, ...]:
        """Return the names of all actions, or the form of actions that cannot be listed."""
        return tuple(map(" ".join, product(*self._parts)))

    def _usual_description(self, doc: Docstring) -> Callable[[Any], str]:
        env, space = self.env, self.env.observation_space
        if isinstance(space, spaces.Text):
            return str
        if _is_text(env):
            return self._rendered
        count = size_of(space)
        if count > MAX_NUMBERS:
            raise RagenError(
                f"observations of {self.distribution} are {space!r:.200}, which is more than {MAX_NUMBERS} "
                "numbers: give describe, a function from an observation to a text"
            )
        names = doc.items("observation", count) if isinstance(space, spaces.Box) else ()
        return partial(written, space, names=names)

    def _rendered(self, _: Any) -> str:
        return without_escapes(str(self.env.render()))

    def limits(self, actions_per_turn: int) -> dict[str, int]:
        """Return the settings of a conversation that lasts as long as the environment's own time limit."""
        steps = (self.env.spec and self.env.spec.max_episode_steps) or _STEPS
        return {"max_turns": math.ceil(steps / actions_per_turn), "max_actions": steps}

    def draw_level(self, rng: Rng) -> str:
        """Return a seed of the environment."""
        return f"seed {rng.integers(2**31)}"

    def start(self, level: str) -> None:
        """Reset the environment with the seed of a level."""
        observation, self._info = self.env.reset(seed=int(level.removeprefix("seed ")))
        self._return, self._terminated, self._truncated = 0.0, False, False
        self._see(observation)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; see ``GameEnv``."""
        result = super().reset(seed=seed, options=options)
        if noise := self.instance.noise:
            entropy = int(self.level.removeprefix("seed ")), noise
            self.env.unwrapped.np_random = np.random.default_rng(entropy)
        return result

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one action."""
        reward, _, effective = self.act(action)
        return self.observe(), reward, self._terminated, self._truncated, self.info(effective)

    def play(self, action: Any) -> tuple[float, bool, bool]:
        """Step the environment; an action is effective if it changed the observation or ended the episode."""
        before = self._observation
        observation, reward, terminated, truncated, self._info = self.env.step(self._inner(action))
        self._terminated, self._truncated = bool(terminated), bool(truncated)
        self._see(observation)
        self._return += float(reward)
        ended = self._terminated or self._truncated
        return float(reward), ended, ended or not data_equivalence(before, self._observation, True)

    def _see(self, observation: Any) -> None:
        self._observation = copy.deepcopy(observation)  # an environment may return the same array again
        self._text = self._describe(observation)
        if not isinstance(self._text, str):
            raise RagenError(f"describe returned {self._text!r:.80}, but must return a text")

    def _inner(self, action: Any) -> Any:
        """Return the environment's action."""
        return self._joined(np.unravel_index(action, [len(names) for names in self._parts]))

    def _joined(self, places: Sequence[Any]) -> Any:
        """Return the environment's action whose parts have these places among their names."""
        space: Any = self.env.action_space
        if isinstance(space, spaces.Discrete):
            return space.start + space.dtype.type(places[0])
        return (np.reshape(places, space.shape) + getattr(space, "start", 0)).astype(space.dtype)

    @property
    def success(self) -> bool | None:  # type: ignore[override]
        """Whether the episode is a success by now; None where that is not defined."""
        if callable(self._success):
            return bool(self._success(self._return, self._info))
        if self._reads_success and "success" in self._info:
            return bool(self._info["success"])
        if self._success is None:
            return None
        return self._return >= self._success and (self._success > 0 or self._terminated)

    def observe(self) -> str:
        """Return the present observation in words."""
        return self._text

    def info(self, effective: bool) -> dict[str, Any]:
        """Return the environment's info, with what a conversation needs."""
        return {**self._info, **super().info(effective)}

    def oracle(self, budget: Budget | int | None = None) -> Advice:  # noqa: ARG002
        """Raise `SolverLimitError`: there is none."""
        raise SolverLimitError(f"{self.distribution} has no oracle")

    def render(self) -> Any:
        """Render the environment."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class _WordTextWrapper(TextWrapper, WordGameEnv):
    """An environment whose actions cannot be listed: texts, or one name for each of several parts."""

    has_fixed_legality = True

    def _names(self) -> tuple[str, ...]:
        space = self.env.action_space
        if isinstance(space, spaces.Text):
            most = min(space.max_length, self.max_action_characters)
            return (f"any text of {space.min_length} to {most} {_written_with(space)}",)
        return (" ".join(f"<{_range(names)}>" for names in self._parts),)

    def _places(self, action: str) -> tuple[int, ...]:
        """Return the places of the parts of an action among their names, or () if it is not in that form."""
        parts = ["|".join(map(re.escape, names)) for names in self._parts]
        match = re.fullmatch(r"\s+".join(f"({part})" for part in parts), action, re.IGNORECASE)
        if match is None:
            return ()
        folded = [[name.casefold() for name in names] for names in self._parts]
        words = [word.casefold() for word in match.groups()]
        if any(word not in names for names, word in zip(folded, words, strict=True)):  # as with a dotless i
            return ()
        return tuple(names.index(word) for names, word in zip(folded, words, strict=True))

    def legality(self, action: str) -> Legality:
        """Return whether the environment has an action, in whatever state."""
        space = self.env.action_space
        has = space.contains(action) if isinstance(space, spaces.Text) else self._places(action)
        return LEGAL if has else illegal(f"its form is {self.action_names[0]}")

    def available(self) -> tuple[str, ...]:
        """Return an example."""
        return (self.random_action(np.random.default_rng(0)),)

    def random_action(self, rng: np.random.Generator) -> str:
        """Return a random action."""
        space = self.env.action_space
        if isinstance(space, spaces.Text):
            space.seed(int(rng.integers(2**31)))
            return space.sample()
        return " ".join(names[int(rng.integers(len(names)))] for names in self._parts)

    def random_actions(self, rng: np.random.Generator, count: int) -> tuple[str, ...]:
        """Return random actions, each of which is legal in every state."""
        return tuple(self.random_action(rng) for _ in range(count))

    def _inner(self, action: Any) -> Any:
        is_text = isinstance(self.env.action_space, spaces.Text)
        return action if is_text else self._joined(self._places(action))


def _is_text(env: gym.Env[Any, Any]) -> bool:
    """Return whether an environment says in words what there is to see."""
    return env.render_mode == "ansi" or isinstance(env.observation_space, spaces.Text)


def _written_with(space: spaces.Text) -> str:
    """Return the characters of which texts consist."""
    if set(space.characters) == {*string.ascii_letters, *string.digits}:
        return "letters and digits"
    return f"of the characters {''.join(sorted(filter(str.isprintable, space.characters)))}"


def _counts(space: spaces.Space[Any]) -> list[int]:
    """Count the values of each part of an action; [] for texts."""
    match space:
        case spaces.Discrete():
            return [int(space.n)]
        case spaces.MultiDiscrete():
            return list(map(int, space.nvec.ravel()))
        case spaces.MultiBinary():
            return [2] * int(np.prod(space.shape))
        case spaces.Text():
            return []
    raise RagenError(
        f"actions of the environment are {space!r:.200}, but must be Discrete, MultiDiscrete, MultiBinary or "
        "Text; gymnasium.wrappers.TransformAction makes others of them"
    )


def _is_listed(space: spaces.Space[Any], actions: Any) -> bool:
    counts = _counts(space)
    return bool(counts) and (math.prod(counts) <= MAX_NAMES or (len(counts) == 1 and bool(actions)))


def _named_parts(space: spaces.Space[Any], actions: Any, doc: Docstring) -> list[list[str]]:
    """Return the names of each part's values."""
    counts = _counts(space)
    if actions is None:
        named = doc.items("action", counts[0]) if isinstance(space, spaces.Discrete) else ()
        starts = np.broadcast_to(np.ravel(getattr(space, "start", 0)), len(counts)).tolist()
        numbers = [list(map(str, range(n, n + c))) for n, c in zip(starts, counts, strict=True)]
        return [list(named)] if named and count_names(named) == len(named) else numbers
    parts = [actions] if isinstance(space, spaces.Discrete) else actions
    if not isinstance(parts, Sequence) or list(map(count_names, parts)) != counts:
        raise RagenError(
            f"actions is {actions!r:.200}, but must be {' and '.join(map(str, counts))} different names "
            f"without || and spaces around them{'' if len(counts) == 1 else ', in a list for each part'}"
        )
    return [list(part) for part in parts]


def _range(names: Sequence[str]) -> str:
    return "|".join(names) if len(names) <= MAX_NAMES else f"{names[0]} to {names[-1]}"
