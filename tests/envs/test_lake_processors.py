"""What the oracle of FrozenLake says must not depend on the order in which a processor sums."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragen_envs.game.oracle import Budget
from ragen_envs.games.frozen_lake import FrozenLakeEnv


def advice_on_many_lakes():
    """Return the oracle's runs, exact values and chances of random play of 25 starts."""
    env, found = FrozenLakeEnv(), []
    for seed in range(25):
        env.reset(seed=seed)
        budget = Budget(10, 5, 5)
        advice = env.oracle(budget)
        worth = env.turn_value(advice.actions, budget)
        chance = env.random_baseline(budget).success
        found.append((advice.actions, advice.value.hex(), worth.hex(), chance.hex()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["Prescott", "Haswell"])
def test_every_processor_gives_the_same_advice(processor):
    code = "import test_lake_processors as t; print(t.advice_on_many_lakes())"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parent, env={**os.environ, "OPENBLAS_CORETYPE": processor},
    )  # fmt: skip
    assert ran.stdout.strip() == str(advice_on_many_lakes())
