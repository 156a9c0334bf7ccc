"""A policy whose replies a function writes."""

from collections.abc import Callable, Sequence

from ragen_agents.policies import Reply, Request


class ScriptedPolicy:
    """Replies computed by a function of the chat."""

    batch_size = 256

    def __init__(self, name: str, script: Callable[[list[dict[str, str]]], str]) -> None:
        self.name = name
        self._script = script

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Reply with the script's output for each chat."""
        return [Reply(self._script(request.messages)) for request in requests]
