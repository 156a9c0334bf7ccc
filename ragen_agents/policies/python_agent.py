"""An agent of the user's own: a class with ``reply``, or a function, async or not."""

import asyncio
import importlib
import importlib.util
import inspect
import logging
import re
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from ragen_agents.policies.base import Reply, Request
from ragen_envs.conversation import Conversation
from ragen_envs.errors import RagenError

_LOG: Final = logging.getLogger("ragen.agents")
_NAME: Final = re.compile(r"(?!hf:|openai:|vllm:)[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

MAX_CHARACTERS: Final = 1 << 18
"""Maximum length of a reply and of its separate thought, so that an episode's line can be read back."""

Function = Callable[[Request], Awaitable[str | Reply] | str | Reply]


class _Closed:
    """The stand-in that an agent gets for the conversation, which knows the best reply and can be stepped."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"request.conversation.{name} is not for agents: the game is in request.messages and "
            "request.pictures"
        )


_CLOSED: Final = cast("Conversation", _Closed())


class PythonPolicy:
    """Asks a function of a request for each reply.

    Args:
        name: Its name in tables.
        function: Returns a text, or a `Reply` to say more. A function that is not async is called for one
            request after another.
        concurrency: Most calls under way at once.
    """

    def __init__(self, name: str, function: Function, concurrency: int) -> None:
        self.name = name
        self.concurrency = concurrency
        self._function = function
        self._has_warned = False

    async def reply(self, request: Request) -> Reply:
        """Ask for one reply; see `AsyncPolicy`."""
        answer = await self._asked(request)
        reply = Reply(answer) if isinstance(answer, str) else answer
        if not isinstance(reply, Reply):
            raise TypeError(f"the reply is {answer!r:.80}, but must be a str or a Reply")
        if (length := len(reply.text) + len(reply.reasoning or "")) > MAX_CHARACTERS:
            raise ValueError(f"the reply has {length:,} characters, but may have at most {MAX_CHARACTERS:,}")
        return reply

    async def _asked(self, request: Request) -> str | Reply:
        """Call the function; what it raises fails this episode only, unless the run itself is stopped."""
        try:
            answer = self._function(replace(request, conversation=_CLOSED))
            return await answer if isinstance(answer, Awaitable) else answer
        except (asyncio.CancelledError, SystemExit) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RuntimeError(f"the agent raised {error!r}") from error
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                _LOG.warning("an exception in %s; further ones are only counted", self.name, exc_info=True)
            if isinstance(error, RagenError):  # from a policy it would stop the run
                raise RuntimeError(f"the agent raised {error!r}") from error
            raise

    async def close(self) -> None:
        """Nothing is held."""


def is_python_agent(agent: str) -> bool:
    """Return whether a name is that of a Python object: ``package.module:Name``."""
    return _NAME.fullmatch(agent) is not None


def load_agent(agent: str, concurrency: int) -> PythonPolicy:
    """Make the policy of ``package.module:Name``, from the current directory or installed packages."""
    _make_importable()
    module, _, name = agent.partition(":")
    try:
        agent_object: Any = getattr(importlib.import_module(module), name)
        function = function_of(agent_object)
    except (Exception, SystemExit) as error:
        raise RagenError(f"agent '{agent}' cannot be made: {type(error).__name__}: {error}") from error
    return wrap_agent(agent, function, concurrency)


def function_of(agent: Any) -> Any:
    """Return the function that an agent replies with: its own method, that of an object, or itself."""
    if isinstance(agent, type):
        agent = agent()
    return getattr(agent, "reply", agent)


def wrap_agent(name: str, function: Any, concurrency: int) -> PythonPolicy:
    """Return a function of a request as a policy."""
    if not callable(function):
        raise RagenError(
            f"agent '{name}' must be a class with the method reply(self, request), or a function of a request"
        )
    if not takes(function, 1):
        shown = getattr(function, "__name__", type(function).__name__)
        raise RagenError(
            f"agent '{name}' is called with one argument, the request, but its function is "
            f"{shown}{inspect.signature(function)}"
        )
    return PythonPolicy(name, function, concurrency)


def source_of(agent: str) -> bytes:
    """Return the source file of the module of ``package.module:Name``."""
    _make_importable()
    module, _, name = agent.partition(":")
    if module.endswith(".py"):
        raise RagenError(
            f"agent '{agent}' names a file, but must name a module: {module.removesuffix('.py')}:{name}"
        )
    try:
        spec = importlib.util.find_spec(module)
    except (Exception, SystemExit) as error:
        raise RagenError(f"agent '{agent}': {type(error).__name__}: {error}") from error
    if spec is None:
        raise RagenError(
            f"agent '{agent}': there is no module '{module}' in the current directory or among the "
            "installed packages"
        )
    if spec.origin is None or not Path(spec.origin).is_file():
        raise RagenError(
            f"agent '{agent}': the module '{module}' has no source file; name a module of your own that "
            "defines the agent"
        )
    return Path(spec.origin).read_bytes()


def _make_importable() -> None:
    """Make modules of the current directory importable, as ``python -m`` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def takes(function: Callable[..., Any], arguments: int) -> bool:
    """Return whether a function takes so many positional arguments; True where nothing tells."""
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:  # some functions that are written in C have no signature
        return True
    return True
