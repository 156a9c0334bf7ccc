"""A policy of a few logits whose every reply, and every group of replies, can be written down.

A *prompt* is a small tree. At a node the policy chooses with the probabilities of a softmax over the node's
logits; between choices it may write forced tokens, which have probability 1. A path to a leaf is a reply,
and a leaf pays one of several rewards with known chances.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Episode:
    """One reply and what it was paid."""

    probability: float
    """Of this reply and this pay, given the prompt."""
    reward: float
    scores: Tensor
    """(T, D) float64: the gradient of each token's log-probability by the logits; 0 for forced tokens."""
    values: Tensor
    """(T,) float64: the exact value before each token."""

    @property
    def tokens(self) -> int:
        """Length of the reply."""
        return len(self.scores)


@dataclass(frozen=True)
class Problem:
    """Prompts, each with all of its episodes.

    The objective is the mean over prompts of the expected reward.
    """

    prompts: tuple[tuple[Episode, ...], ...]
    directions: dict[str, Tensor]
    """(D,) each: sums of logits along which results are reported."""

    @cached_property
    def gradient(self) -> Tensor:
        """The true gradient of the objective by the logits, (D,)."""
        per_prompt = [self.gradient_of(prompt) for prompt in range(len(self.prompts))]
        return torch.stack(per_prompt).mean(0)

    def gradient_of(self, prompt: int) -> Tensor:
        """Return the gradient of one prompt's expected reward, (D,)."""
        found = [e.probability * e.reward * e.scores.sum(0) for e in self.prompts[prompt]]
        return torch.stack(found).sum(0)


def answers(chances: Sequence[float], long: float = 0.5, tokens: tuple[int, int] = (2, 4)) -> Problem:
    """Return prompts with one right answer, which may be given in a short or a long reply.

    The length has no influence on the reward: its true gradients are 0.

    Args:
        chances: The policy's chance of the right answer, a number a prompt.
        long: Its chance of a long reply, after a right answer and after a wrong one.
        tokens: Lengths of the two.
    """
    size = 3 * len(chances)
    prompts = []
    for place, right in enumerate(chances):
        episodes = []
        for is_right, is_long in ((1, 0), (1, 1), (0, 0), (0, 1)):
            scores = torch.zeros(tokens[is_long], size, dtype=torch.float64)
            scores[0, 3 * place] = is_right - right
            scores[1, 3 * place + 2 - is_right] = is_long - long
            chance = (right if is_right else 1 - right) * (long if is_long else 1 - long)
            values = torch.full((tokens[is_long],), float(is_right), dtype=torch.float64)
            values[0] = right
            episodes.append(Episode(chance, float(is_right), scores, values))
        prompts.append(tuple(episodes))
    directions = {f"right, {right:g}": _units([3 * k], size) for k, right in enumerate(chances)}
    for offset, name in ((1, "long after right"), (2, "long after wrong")):
        directions[name] = _units([3 * k + offset for k in range(len(chances))], size)
    return Problem(tuple(prompts), directions)


def gamble(
    sure: float = 0.15, jackpot: float = 1.0, chance: float = 0.1, take: float = 0.5, prompts: int = 2
) -> Problem:  # fmt: skip
    """Return bandits with a sure arm and a gamble; the defaults are those of BanditTrap.

    Args:
        sure: Pay of the sure arm.
        jackpot: Pay of the gamble if it wins.
        chance: Of its winning.
        take: The policy's chance of the gamble.
        prompts: How many bandits; all have a logit of their own.
    """
    made = []
    for place in range(prompts):
        episodes = []
        for probability, reward, risky in (
            (1 - take, sure, 0),
            (take * chance, jackpot, 1),
            (take * (1 - chance), 0.0, 1),
        ):
            scores = torch.zeros(1, prompts, dtype=torch.float64)
            scores[0, place] = risky - take
            value = (1 - take) * sure + take * chance * jackpot
            episodes.append(Episode(probability, reward, scores, torch.tensor([value], dtype=torch.float64)))
        made.append(tuple(episodes))
    return Problem(tuple(made), {"gamble": _units(range(prompts), prompts)})


def _units(places: Iterable[int], size: int) -> Tensor:
    found = torch.zeros(size, dtype=torch.float64)
    found[list(places)] = 1.0
    return found
