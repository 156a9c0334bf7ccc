"""Write statements into the thoughts of a language model by the rules of the game, while it generates."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragen_agents.policies.base import Reply, Request
from ragen_envs.game.claims import MOVE, Claim
from ragen_envs.levels.seeding import new_stream

if TYPE_CHECKING:
    from ragen_agents.policies.language_models import LanguageModelPolicy


class Intervened:
    """A language model whose statements are replaced in the thought, and that writes on from there.

    A reply is generated; where a statement differs from what is wanted, the text from there on is replaced by
    the statement, and the model continues. So it chooses all actions, and knows only what it reads.

    Args:
        policy: The model.
        truth: True makes every statement true. False makes the first statement of each reply false.
        kind: Of the claims: `MOVE` or `PLACE`.
    """

    def __init__(self, policy: "LanguageModelPolicy", truth: bool, kind: str = MOVE) -> None:
        self.name = policy.name
        self.batch_size = policy.batch_size
        self._policy, self._truth, self._kind = policy, truth, kind

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Generate replies, and continue from each statement that is written."""
        replies = self._policy.act(requests)
        begun, times = dict.fromkeys(range(len(requests)), ""), 0
        while begun := {
            i: text
            for i, before in begun.items()
            if (text := self._intervene(requests[i], replies[i], before)) is not None
        }:
            times += 1
            # The same draws again would repeat what they led to before.
            again = [
                replace(requests[i], seed=new_stream("intervention", str(times), requests[i].seed))
                for i in begun
            ]
            continued = self._policy.continue_replies(again, list(begun.values()))
            for i, reply in zip(begun, continued, strict=True):
                replies[i] = reply
        return replies

    def release(self) -> None:
        """Release what the model keeps of the conversations."""
        if (release := getattr(self._policy, "release", None)) is not None:
            release()

    def _intervene(self, request: Request, reply: Reply, begun: str) -> str | None:
        """Return the corrected beginning of a reply; None if nothing has to change.

        The end of the statement is the model's to write: a full stop would often be another token than
        its own. Only where it goes on until the statement is not as wanted any more, it gets a full stop.
        """
        env: Any = request.conversation
        for claim in () if reply.overflow else env.claims(reply.text, reply.cut_off):
            if claim.true is None or not claim.kind.startswith(self._kind):
                continue
            if claim.true is not self._truth and claim.end > len(begun):
                if claim.start < len(begun):
                    return None if begun.endswith(".") else begun + "."
                before = reply.text[: claim.start]
                either = [claim.fact] if self._truth else _lies(env, before, claim, request.seed)
                for fact in either:
                    text = before + _in_place(claim.stated, fact)
                    written = _claim_at(env, text, claim.start)
                    if written is not None and written.true is self._truth:
                        return text
            if not self._truth:
                return None
        return None


def _claim_at(env: Any, text: str, start: int) -> Claim | None:
    return next((claim for claim in env.claims(text, True) if claim.start == start), None)


def _in_place(stated: str, fact: str) -> str:
    """Return a fact with what stands before its first word in a statement: the countdown."""
    name = fact.split()[0]
    place = max(stated.casefold().find(name.casefold()), 0)
    word = name.capitalize() if stated[place].isupper() else name
    return re.sub("^no ", "", stated[:place], flags=re.IGNORECASE) + word + fact[len(name) :]


def _lies(env: Any, before: str, claim: Claim, seed: int) -> Iterator[str]:
    """Yield candidates for a false claim: outcomes of other actions, then changed numbers."""
    if claim.kind == MOVE and isinstance(claim.action, int):
        name, first = env.names[claim.action], seed % len(env.names)
        for other in (*env.names[first:], *env.names[:first]):
            probe = re.sub(re.escape(name), other, claim.stated, count=1, flags=re.IGNORECASE)
            outcome = _claim_at(env, before + probe, claim.start)
            if outcome is not None and outcome.fact.startswith(other):
                yield name + outcome.fact.removeprefix(other)
    for number in re.finditer(r"\d+", claim.fact):
        for step in (1, -1):
            changed = str(abs(int(number[0]) + step))
            yield claim.fact[: number.start()] + changed + claim.fact[number.end() :]
