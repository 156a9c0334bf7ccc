"""Cache paid replies in sqlite; several runs may share the file."""

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from ragen_agents.pictures import picture_hash
from ragen_agents.policies import AsyncPolicy, Reply, Request
from ragen_bench.config.run_config import AgentEntry
from ragen_bench.config.suites import SamplingSettings
from ragen_envs.errors import RagenError

_REPLY: Final = TypeAdapter(Reply)
_TABLE: Final = "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, reply TEXT) WITHOUT ROWID"


class Cached:
    """A policy that asks for nothing twice, other than what exceeded the model's context, which may grow.

    A reply is known by the model, the endpoint's settings, the sampling, the messages, the pictures,
    the beginning of the turn, and the request's seed, which is made from the run's seed, the episode,
    its attempt and the turn.
    """

    def __init__(
        self, policy: AsyncPolicy, path: Path, agent: AgentEntry, sampling: SamplingSettings
    ) -> None:
        self.name, self.concurrency = policy.name, policy.concurrency
        self._policy, self._path = policy, path
        self._who = [
            agent.model_dump(mode="json", exclude={"endpoint": {"also_at"}}),
            sampling.model_dump(mode="json"),
        ]
        try:
            # Beside a running event loop, as in a notebook, another thread plays; one uses it at a time.
            self._replies = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            self._replies.execute("PRAGMA journal_mode = WAL")
            self._replies.execute("PRAGMA synchronous = NORMAL")
            self._replies.execute(_TABLE)
        except sqlite3.Error as error:
            raise self._broken(error) from error

    async def reply(self, request: Request) -> Reply:
        """Return the reply that is there, or ask for it and keep it."""
        key = self._key(request)
        try:
            rows = self._replies.execute("SELECT reply FROM replies WHERE key = ?", (key,))
            row = rows.fetchone()
            if row is not None and not (kept := _REPLY.validate_json(row[0])).overflow:
                return kept
            reply = await self._policy.reply(request)
            if reply.overflow:
                return reply
            text = _REPLY.dump_json(reply).decode()
            self._replies.execute("INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, text))
        except (sqlite3.Error, ValidationError) as error:
            raise self._broken(error) from error
        return reply

    async def close(self) -> None:
        """Close the cache and the policy."""
        try:
            self._replies.close()
        finally:
            await self._policy.close()

    def _key(self, request: Request) -> bytes:
        pictures = [picture_hash(picture) for picture in request.pictures]
        what = [*self._who, request.messages, pictures, request.prefix, request.seed]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).digest()

    def _broken(self, error: Exception) -> RagenError:
        return RagenError(f"the cache '{self._path}' cannot be used: {error}")
