"""Count what a run spends at endpoints, stop it at its budget, and pay for no reply twice."""

import asyncio
import hashlib
import json
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from ragen_agents.pictures import picture_hash
from ragen_agents.policies import AsyncPolicy, BudgetReachedError, Reply, Request
from ragen_agents.policies.base import check_reply
from ragen_agents.run_files.files import read_text, writing
from ragen_agents.run_files.yaml_files import load_yaml, validate
from ragen_bench.config.run_config import AgentEntry
from ragen_bench.config.suites import SamplingSettings, StrictModel
from ragen_bench.runs.directory import USAGE
from ragen_envs.errors import RagenError

_MILLION: Final = 1_000_000


class Price(StrictModel):
    """Money for a million tokens, in any currency."""

    input: float = Field(ge=0)
    """Price of a million tokens of prompts."""
    output: float = Field(ge=0)
    """Price of a million tokens of replies, thoughts included."""


class _Line(StrictModel):
    agent: str
    prompt_tokens: int = Field(ge=0)
    reply_tokens: int = Field(ge=0)
    estimated: bool


class Spent(NamedTuple):
    """Tokens of one agent."""

    prompt_tokens: int = 0
    reply_tokens: int = 0
    estimated: bool = False
    """Whether some of them are estimates."""


class Ledger:
    """The tokens that a run has spent, kept in `USAGE`.

    Answers of episodes that were never finished are in it too: they were paid for.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / USAGE
        self.spent: defaultdict[str, Spent] = defaultdict(Spent)
        self.requests = 0
        if self._path.exists():
            self._read()

    def add(self, agent: str, reply: Reply) -> None:
        """Count an answer; it survives the end of this process when this returns."""
        line = _Line(
            agent=agent,
            prompt_tokens=reply.prompt_tokens or 0,
            reply_tokens=reply.reply_tokens or 0,
            estimated=reply.tokens_estimated,
        )
        with writing(self._path), self._path.open("ab") as file:
            file.write(line.model_dump_json().encode() + b"\n")
        self._count(line)

    def _read(self) -> None:
        """Count what is there, and cut off a line that a kill has torn."""
        with self._path.open("rb+") as file:
            size = 0
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._count(_Line.model_validate_json(line))
                except ValidationError:
                    raise RagenError(f"{self._path} line {number} was changed") from None
                size += len(line)
            file.truncate(size)

    def _count(self, line: _Line) -> None:
        self.requests += 1
        before = self.spent[line.agent]
        self.spent[line.agent] = Spent(
            before.prompt_tokens + line.prompt_tokens,
            before.reply_tokens + line.reply_tokens,
            before.estimated or line.estimated,
        )

    @property
    def tokens(self) -> int:
        """All tokens, of prompts and replies."""
        return sum(spent.prompt_tokens + spent.reply_tokens for spent in self.spent.values())

    def cost(self, prices: Mapping[str, Price]) -> float:
        """Return the cost of all tokens; agents without a price cost nothing."""
        return sum(
            (spent.prompt_tokens * price.input + spent.reply_tokens * price.output) / _MILLION
            for agent, spent in self.spent.items()
            if (price := price_of(agent, prices)) is not None
        )

    def summary(self, prices: Mapping[str, Price]) -> str:
        """Return a line for people."""
        prompts = sum(spent.prompt_tokens for spent in self.spent.values())
        replies = sum(spent.reply_tokens for spent in self.spent.values())
        about = "about " if any(spent.estimated for spent in self.spent.values()) else ""
        cost = f", cost {self.cost(prices):.4f}" if prices else ""
        return f"{about}{prompts} prompt tokens, {replies} reply tokens{cost}"


def price_of(agent: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of an agent, which may be listed with or without its kind."""
    return prices.get(agent) or prices.get(agent.partition(":")[2])


def load_prices(path: Path) -> dict[str, Price]:
    """Read a YAML mapping from model names to ``{input: …, output: …}``."""
    data = load_yaml(read_text(path), f"prices '{path}'")
    if not isinstance(data, dict):
        raise RagenError(f"prices '{path}' must be a mapping from model names to input and output")
    return {str(k): validate(Price, v, f"prices '{path}', '{k}'") for k, v in data.items()}


_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Budget:
    """Limits on spending; None is no limit. The time starts when this is created."""

    cost: float | None = None
    """Money of the whole run, in the currency of the prices."""
    tokens: int | None = None
    """Tokens of the whole run, of prompts and replies."""
    seconds: float | None = None
    """Seconds from now on."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices by model."""
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for name, limit in {"cost": self.cost, "token": self.tokens, "time": self.seconds}.items():
            if limit is not None and not 0 < limit < float("inf"):
                raise RagenError(f"--{name}-limit is {limit!r}, but must be a number > 0")

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the time is over, which may be negative; None without a limit."""
        if self.seconds is None:
            return None
        return self.started + self.seconds - time.monotonic()

    def check(self, ledger: Ledger) -> None:
        """Raise `BudgetReachedError` if nothing more may be spent."""
        self.check_time()
        if self.tokens is not None and ledger.tokens >= self.tokens:
            raise BudgetReachedError(f"{ledger.tokens} of {self.tokens} tokens are used")
        if self.cost is not None and (cost := ledger.cost(self.prices)) >= self.cost:
            raise BudgetReachedError(f"{cost:.4f} of {self.cost:g} is spent")

    def requests_left(self, ledger: Ledger) -> float:
        """Estimate how many more requests the limits allow, by the mean of those that were counted."""
        shares = [0.0]
        if self.tokens is not None:
            shares.append(ledger.tokens / self.tokens)
        if self.cost is not None:
            shares.append(ledger.cost(self.prices) / self.cost)
        share = max(shares)
        return ledger.requests * (1 - share) / share if share else float("inf")

    def check_counted(self, agent: str, reply: Reply) -> None:
        """Raise `RagenError` if a limit counts this agent's tokens and the reply does not say how many."""
        if reply.overflow or reply.filtered or None not in (reply.prompt_tokens, reply.reply_tokens):
            return
        if self.tokens is None and (self.cost is None or price_of(agent, self.prices) is None):
            return
        option = "--cost-limit" if self.tokens is None else "--token-limit"
        raise RagenError(
            f"{option} cannot limit '{agent}', which does not say how many tokens it used; return a Reply "
            "with prompt_tokens and reply_tokens (0 where they cost nothing), or limit its time with "
            "--time-limit"
        )

    def check_time(self) -> None:
        """Raise `BudgetReachedError` if the time is over."""
        left = self.seconds_left
        if left is not None and left <= 0:
            raise BudgetReachedError(f"{self.seconds:g} s are over")


class Metered:
    """A policy whose replies are counted and end when the budget is reached.

    Requests that are in flight when cost or tokens are spent are waited for and counted; they are all that a
    run can spend beyond its budget. The less is left, the fewer are in flight. The end of the time cancels
    them uncounted.
    """

    def __init__(self, policy: AsyncPolicy, ledger: Ledger, budget: Budget) -> None:
        self.name, self.concurrency = policy.name, policy.concurrency
        self._policy, self._ledger, self._budget = policy, ledger, budget
        self._in_flight = 0
        self._answered = asyncio.Condition()

    async def reply(self, request: Request) -> Reply:
        """Ask for one reply and count it."""
        async with self._answered:
            await self._answered.wait_for(
                lambda: self._in_flight < max(1, self._budget.requests_left(self._ledger))
            )
            self._budget.check(self._ledger)
            self._in_flight += 1
        try:
            reply = check_reply(await self._policy.reply(request))
            self._ledger.add(self.name, reply)
        finally:
            self._in_flight -= 1
            unused = getattr(self._policy, "unused", [])  # of endpoints alone
            while unused:
                usage = unused.pop()
                self._ledger.add(self.name, Reply("", usage.prompt_tokens, usage.written))
            async with self._answered:
                self._answered.notify_all()
        self._budget.check_counted(self.name, reply)
        return reply

    async def close(self) -> None:
        """Close the policy."""
        await self._policy.close()


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


def read_duration(name: str, value: str | float) -> float:
    """Return the seconds of a duration such as 90, "90s", "10m" or "1.5h"; ``name`` is how errors call it."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value.strip())
    if match is None:
        raise RagenError(f"{name} is '{value}', but must be like 90s, 10m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]
