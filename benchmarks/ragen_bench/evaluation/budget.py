"""Budgets of runs. They decide when a run stops, never what it plays."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ragen_agents.policies import AsyncPolicy, BudgetReachedError, Reply, Request
from ragen_bench.evaluation.spending import Ledger, Price, price_of
from ragen_envs.game.errors import RagenError

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
    """By model."""
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for name in ("cost", "tokens", "seconds"):
            limit = getattr(self, name)
            if limit is not None and not 0 < limit < float("inf"):
                raise RagenError(f"the budget of {name} is {limit!r}, but must be a number > 0")

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

    def check_counted(self, agent: str, reply: Reply) -> None:
        """Raise `RagenError` if a limit counts this agent's tokens and the reply does not say how many."""
        if reply.overflow or None not in (reply.prompt_tokens, reply.reply_tokens):
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

    Requests that are in flight then are waited for and counted; they are all that a run can spend
    beyond its budget.
    """

    def __init__(self, policy: AsyncPolicy, ledger: Ledger, budget: Budget) -> None:
        self.name, self.concurrency = policy.name, policy.concurrency
        self._policy, self._ledger, self._budget = policy, ledger, budget

    async def reply(self, request: Request) -> Reply:
        """Ask for one reply and count it."""
        self._budget.check(self._ledger)
        reply = await self._policy.reply(request)
        self._ledger.add(self.name, reply)
        self._budget.check_counted(self.name, reply)
        return reply

    async def close(self) -> None:
        """Close the policy."""
        await self._policy.close()


def read_duration(text: str) -> float:
    """Return the seconds of a duration such as 90, 90s, 10m or 1.5h.

    Raises:
        RagenError: It is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None:
        raise RagenError(f"duration is '{text}', but must be like 90s, 10m or 1.5h")
    return float(found[1]) * _UNITS[found[2]]
