"""Every id of the suite, in one table."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, cast

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec, load_env_creator

from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_envs.game.base import GameEnv

_LOG: Final = logging.getLogger("ragen.registration")


@dataclass(frozen=True)
class GameSpec:
    """One registered game; its text id is the name with ``Text`` appended."""

    name: str
    """CamelCase name; the id is ``<namespace>/<name>-v0``."""
    entry_point: str
    """``module:Class`` of the numeric env."""
    summary: str
    """One line for lists."""
    max_episode_steps: int | None = None
    """Actions after which Gymnasium truncates an episode; None for no limit."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the env's constructor that differ from its defaults."""
    conversation: Mapping[str, Any] = field(default_factory=dict)
    """Conversation settings of the text id that differ from the defaults."""
    namespace: str = "ragen"
    """First part of the ids; games from outside the suite need another."""
    picture: int | None = None
    """Test level whose picture the documentation shows as ``images/<image>.png``; None for none."""
    vector_entry_point: str | None = None
    """``module:Class`` of the vector env; None for no compiled one."""
    control_of: str | None = None
    """Name of the game whose prompts this one shows while the opposite answers are right; averages over games
    leave such a control out. None for a game in its own right."""

    @property
    def id(self) -> str:
        """Id of the numeric env."""
        return f"{self.namespace}/{self.name}-v0"

    @property
    def text_id(self) -> str:
        """Id of the conversation env."""
        return f"{self.namespace}/{self.name}Text-v0"

    @property
    def module(self) -> str:
        """The game's package, which its variants share."""
        return self.entry_point.partition(":")[0]

    @property
    def image(self) -> str:
        """Name of the game's picture."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    @property
    def env_class(self) -> "type[GameEnv[Any]]":
        """The class of the numeric env; it declares the game's capabilities."""
        return cast("type[GameEnv[Any]]", load_env_creator(self.entry_point))


_BANDIT: Final = "ragen_envs.games.bandit:BanditEnv"
_BANDIT_VECTOR: Final = "ragen_envs.games.bandit.vector:BanditVectorEnv"
_SOKOBAN: Final = "ragen_envs.games.sokoban:SokobanEnv"
_SOKOBAN_VECTOR: Final = "ragen_envs.games.sokoban.vector:SokobanVectorEnv"
_LAKE: Final = "ragen_envs.games.frozen_lake:FrozenLakeEnv"
_LAKE_VECTOR: Final = "ragen_envs.games.frozen_lake.vector:FrozenLakeVectorEnv"


def _turns(turns: int, actions: int) -> dict[str, int]:
    """Return the settings of a conversation whose only limits are its turns and the actions in each."""
    return {"max_turns": turns, "actions_per_turn": actions, "max_actions": turns * actions}


_ONE_ACTION: Final = _turns(1, 1)

GAMES: Final = (
    GameSpec(
        "Bandit", _BANDIT, "two named arms; the risky-sounding one is a gamble, and better",
        conversation=_ONE_ACTION, picture=1, vector_entry_point=_BANDIT_VECTOR,
    ),
    GameSpec(
        "BanditRev", _BANDIT, "the safe-sounding arm is the gamble, and better",
        kwargs={"gamble": "sounds_safe"}, conversation=_ONE_ACTION, control_of="Bandit",
        vector_entry_point=_BANDIT_VECTOR,
    ),
    GameSpec(
        "BanditTrap", _BANDIT, "the risky-sounding arm is a gamble, and worse",
        kwargs={"chance": 0.10}, conversation=_ONE_ACTION, control_of="Bandit",
        vector_entry_point=_BANDIT_VECTOR,
    ),
    GameSpec(
        "Sokoban", _SOKOBAN, "push one box onto its target, 6x6", 100, picture=16,
        vector_entry_point=_SOKOBAN_VECTOR,
    ),
    GameSpec(
        "SokobanLarge", _SOKOBAN, "push two boxes onto targets, 8x8", 200,
        kwargs={"size": 8, "boxes": 2, "search_depth": 10}, picture=49,
        vector_entry_point=_SOKOBAN_VECTOR,
    ),
    GameSpec(
        "FrozenLake", _LAKE, "cross slippery ice to the goal, 4x4", 100, picture=14,
        vector_entry_point=_LAKE_VECTOR,
    ),
    GameSpec(
        "FrozenLakeDeterministic", _LAKE, "cross the ice to the goal, no slipping", 100,
        kwargs={"success_rate": 1.0}, vector_entry_point=_LAKE_VECTOR,
    ),
    GameSpec(
        "Cube", "ragen_envs.games.cube:CubeEnv",
        "turn the scrambled 2x2x2 cube until every face shows a single color", 100, picture=7,
    ),
    GameSpec(
        "Countdown", "ragen_envs.games.countdown:CountdownEnv",
        "reach a target by calculating with four numbers", 20, conversation=_turns(5, 3), picture=5,
    ),
    GameSpec(
        "Mastermind", "ragen_envs.games.mastermind:MastermindEnv",
        "find a hidden code of four pegs in six colors", 10, conversation=_turns(6, 1), picture=0,
    ),
    GameSpec(
        "Sudoku", "ragen_envs.games.sudoku:SudokuEnv", "fill a 4x4 Sudoku", 50,
        conversation=_turns(5, 5), picture=1,
    ),
    GameSpec(
        "Minesweeper", "ragen_envs.games.minesweeper:MinesweeperEnv",
        "open every cell of a 5x5 board that has no mine", 50, conversation=_turns(10, 5), picture=3,
    ),
    GameSpec(
        "WebShop", "ragen_envs.games.webshop:WebShopEnv",
        "buy what an instruction asks for in an online shop", 100, conversation=_turns(15, 1),
        picture=2,
    ),
)  # fmt: skip
"""The games of the suite, in the order of its tables."""

TEXT_VARIANTS: Final = {"ragen/SokobanNewVocabText-v0": ("ragen/Sokoban-v0", {"symbols": "new_vocab"})}
"""Text ids that are settings of another game's conversation."""

TEXT_ENTRY_POINT: Final = "ragen_envs.conversation.factory:make_registered"
"""Function that Gymnasium calls for every text id, with the id of the game and the defaults of the text
id."""

GAMES_GROUP: Final = "ragen.games"
"""Entry points of installed packages that add games: each a ``GameSpec``, or several of them."""


_added: Final[dict[str, GameSpec]] = {}
"""Games from outside the suite, by id."""


def text_ids() -> tuple[str, ...]:
    """Return the ids of all conversation envs, those of games from outside last."""
    register_installed_games()
    specs = gym.registry.items()
    return tuple(env_id for env_id, spec in specs if spec.entry_point == TEXT_ENTRY_POINT)


def plain_id(env_id: str) -> str | None:
    """Return the id of an environment that is no game of the suite, and None for other ids.

    A conversation can be made of it.
    """
    own = {game.id for game in GAMES}
    return env_id if env_id in gym.registry and not game_of(env_id) and env_id not in own else None


def added_games() -> tuple[GameSpec, ...]:
    """Return the games from outside: those of installed packages, and what else was registered."""
    register_installed_games()
    return tuple(_added.values())


def register_all() -> None:
    """Register every id of the suite with Gymnasium; calling it again changes nothing."""
    for game in GAMES:
        register_game(game)
    for text_id, (game_id, settings) in TEXT_VARIANTS.items():
        if text_id not in gym.registry:
            register_text(text_id, game_id, **settings)


def register_game(game: GameSpec) -> None:
    """Register a game and its conversation with Gymnasium; calling it again changes nothing.

    Raises:
        RagenError: Another game is registered under one of its ids, or it is in the suite's own namespace.
    """
    if game.namespace == GameSpec.namespace and game not in GAMES:
        raise RagenError(f"{game.id} is in the suite's own namespace; choose another")
    taken = [each for each in (game.id, game.text_id) if each in gym.registry]
    if taken and game in (*GAMES, *_added.values()):
        return
    if taken:
        raise RagenError(f"{taken[0]} is registered already; choose another name or namespace")
    gym.register(
        game.id,
        entry_point=game.entry_point,
        vector_entry_point=game.vector_entry_point,
        max_episode_steps=game.max_episode_steps,
        # The suite's games check actions and the order of calls themselves.
        order_enforce=game not in GAMES,
        disable_env_checker=game in GAMES,
        kwargs=dict(game.kwargs),
    )
    register_text(game.text_id, game.id, **game.conversation)
    if game not in GAMES:
        _added[game.id] = game


@lru_cache(maxsize=1)
def register_installed_games() -> None:
    """Register the games that installed packages add.

    A package that cannot be loaded is skipped, with a warning.
    """
    for point in entry_points(group=GAMES_GROUP):
        try:
            loaded = point.load()
            added = (loaded,) if isinstance(loaded, GameSpec) else tuple(loaded)
            for game in added:
                register_game(game)
        except Exception as error:
            origin = point.dist.name if point.dist else "an unknown package"
            _LOG.warning("could not load game '%s' of %s: %s", point.name, origin, error)


def creator_of(spec: EnvSpec) -> Callable[..., gym.Env[Any, Any]] | None:
    """Return the creator of the single env of a registered id, or None if it has vector envs only.

    Raises:
        RagenError: Its entry point cannot be loaded.
    """
    creator: Any = spec.entry_point
    if not isinstance(creator, str):
        return cast("Callable[..., gym.Env[Any, Any]] | None", creator)
    try:
        return cast("Callable[..., gym.Env[Any, Any]]", load_env_creator(creator))
    except Exception as error:
        form = "" if ":" in creator else f"its entry point is '{creator}', but must be module:Class; "
        raise RagenError(f"{spec.id} cannot be loaded: {form}{type(error).__name__}: {error}") from error


def game_of(text_id: str) -> str | None:
    """Return the id of the game that a text id is registered for, or None where it is no text id."""
    spec = gym.registry.get(text_id)
    if spec is None or spec.entry_point != TEXT_ENTRY_POINT:
        return None
    return str(spec.kwargs["game"])


def spec_of(text_id: str) -> GameSpec | None:
    """Return the game that a text id is registered for; None for other ids and games without a spec."""
    game_id = game_of(text_id)
    return next((game for game in (*GAMES, *_added.values()) if game.id == game_id), None)


def register_text(text_id: str, game_id: str, **settings: Any) -> None:
    """Register the conversation of a registered game, or of any environment, under a separate id.

    Args:
        text_id: The new id, such as ``"mine/MyGameText-v0"``.
        game_id: Id of a game, or of another environment of Gymnasium.
        **settings: Defaults of ``ConversationWrapper``, of the game, or of ``TextWrapper``.
    """
    gym.register(text_id, entry_point=TEXT_ENTRY_POINT, kwargs={"game": game_id, **settings})
