"""Measure the information estimates on writers whose information is known, for docs/training-results.md.

``python docs/measure_information.py`` prints the tables. A writer writes its prompt's code with probability
1 - epsilon, and else any code. In the first table there are 32 prompts and 64 codes, and a sample is 64
texts of 8 tokens under all prompts. In the second there are 1024 prompts, each with a code, and a sample
is a text for each of 24 of them, as in training.
"""

import math
from collections.abc import Callable
from statistics import fmean, stdev
from typing import Final

import torch
from torch import Tensor

from ragen_agents.starpo.run.diagnostics import information

CODES: Final = 64
PROMPTS: Final = 32
TEXTS: Final = 64
TOKENS: Final = 8
SAMPLES: Final = 400
POPULATION: Final = 1024
DRAWN: Final = 24

Draw = Callable[[float, torch.Generator], tuple[Tensor, Tensor]]
"""Returns log-probabilities of texts under prompts, and which prompt is whose own."""


def sample(epsilon: float, drawn: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return log-probabilities, (TEXTS, PROMPTS), and the place of each own prompt."""
    own = torch.randint(PROMPTS, (TEXTS,), generator=drawn)
    lost = torch.rand(TEXTS, generator=drawn) < epsilon
    written = torch.where(lost, torch.randint(CODES, (TEXTS,), generator=drawn), own)
    low = math.log(epsilon / CODES) if epsilon else -1e9
    logprobs = torch.full((TEXTS, PROMPTS), low, dtype=torch.float64)
    of_prompt = written < PROMPTS
    logprobs[of_prompt, written[of_prompt]] = math.log(1 - epsilon + epsilon / CODES)
    return logprobs, own


def known(epsilon: float) -> float:
    """Return the mutual information of a prompt and what is written for it, in nats."""
    right, other = 1 - epsilon + epsilon / CODES, epsilon / CODES
    mean = (right + (PROMPTS - 1) * other) / PROMPTS
    found = right * math.log(right / mean)
    return found + (PROMPTS - 1) * other * math.log(other / mean) if other else found


def sample_of_many(epsilon: float, drawn: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return log-probabilities, (DRAWN, DRAWN), of texts for prompts from the population, and own places."""
    prompts = torch.randperm(POPULATION, generator=drawn)[:DRAWN]
    lost = torch.rand(DRAWN, generator=drawn) < epsilon
    written = torch.where(lost, torch.randint(POPULATION, (DRAWN,), generator=drawn), prompts)
    low = math.log(epsilon / POPULATION) if epsilon else -1e9
    high = math.log(1 - epsilon + epsilon / POPULATION)
    logprobs = torch.full((DRAWN, DRAWN), low, dtype=torch.float64)
    logprobs[written[:, None] == prompts] = high
    return logprobs, torch.arange(DRAWN)


def known_of_many(epsilon: float) -> float:
    """Return the mutual information over the population, in nats."""
    right, other = 1 - epsilon + epsilon / POPULATION, epsilon / POPULATION
    found = right * math.log(right * POPULATION)
    return found + (POPULATION - 1) * other * math.log(other * POPULATION) if other else found


def main() -> None:
    """Print the tables."""
    _print_all_prompts()
    print()
    _print_drawn_prompts()


def _print_all_prompts() -> None:
    print("| ε | known | sequence | per token | retrieval@1 | chance |")
    print("|--:|--:|--:|--:|--:|--:|")
    for epsilon in (0.0, 0.25, 0.5, 0.75, 0.9, 1.0):
        rows = _measured(sample, epsilon, TEXTS)
        by_token = f"{_mean(rows, 'mutual_information_per_token'):.2f}"
        cells = [
            *_by_sequence(known(epsilon), rows),
            by_token,
            _retrieved(rows),
            f"{rows[0]['chance@1']:.2f}",
        ]
        print(f"| {epsilon:g} | " + " | ".join(cells) + " |")


def _print_drawn_prompts() -> None:
    print("| ε | known | sequence | retrieval@1 |")
    print("|--:|--:|--:|--:|")
    for epsilon in (0.0, 0.25, 0.5, 0.75, 0.9, 0.97):
        rows = _measured(sample_of_many, epsilon, DRAWN)
        cells = [*_by_sequence(known_of_many(epsilon), rows), _retrieved(rows)]
        print(f"| {epsilon:g} | " + " | ".join(cells) + " |")


def _measured(draw: Draw, epsilon: float, texts: int) -> list[dict[str, float]]:
    """Return the estimates from each of the samples."""
    drawn = torch.Generator().manual_seed(0)
    lengths = torch.full((texts,), TOKENS)
    return [information(*draw(epsilon, drawn), lengths) for _ in range(SAMPLES)]


def _by_sequence(known: float, rows: list[dict[str, float]]) -> list[str]:
    found = [row["mutual_information"] for row in rows]
    return [f"{known:.2f}", f"{fmean(found):.2f} ± {stdev(found):.2f}"]


def _retrieved(rows: list[dict[str, float]]) -> str:
    return f"{_mean(rows, 'retrieval@1'):.2f}"


def _mean(rows: list[dict[str, float]], name: str) -> float:
    return fmean(row[name] for row in rows)


if __name__ == "__main__":
    main()
