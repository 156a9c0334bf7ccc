"""The stages, in order of value. Each is a process, whose failure or memory is no other's."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

TRITON: Final = {"attention_backend": "TRITON_ATTN"}
EAGER: Final = {"enforce_eager": True}
OLD_RUNNER: Final = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


ONE_ITERATION: Final = ("--iterations", "1", "--preset", "starpo-ppo")


@dataclass(frozen=True)
class Attempt:
    """One way to start vLLM."""

    label: str
    extra: dict[str, Any]
    """Goes to ``vllm.extra``."""
    environment: dict[str, str]


ATTEMPTS: Final = (
    Attempt("default", {}, {}),
    Attempt("TRITON_ATTN", TRITON, {}),
    Attempt("enforce_eager", EAGER, {}),
    Attempt("model runner V1", {}, OLD_RUNNER),
    Attempt("all three", TRITON | EAGER, OLD_RUNNER),
)
"""Tried in this order while vLLM does not start and there is time."""


@dataclass(frozen=True)
class Stage:
    """A module of this package that is run as a program."""

    name: str
    title: str
    limit: float
    """Seconds after which it is ended."""
    module: str
    arguments: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    """Ways to run it; the next one is tried if a run ends before it leaves the finding "start"."""
    lacks: str = ""
    """Why it cannot run on this machine."""

    def command(self, findings: Path, common: Sequence[str]) -> list[str]:
        """Return the command that writes its findings to a file."""
        program = [sys.executable, "-m", f"gpu_check.{self.module}", "--json", str(findings)]
        return [*program, *common, *self.arguments]


STAGES: Final = (
    Stage("ceilings", "Copy and matrix-product ceilings", 30, "ceilings"),
    Stage("gradients", "Gradients against float64", 40, "gradients"),
    Stage("tests", "CUDA tests without vLLM", 90, "test_run"),
    Stage("update", "Update, bfloat16", 100, "updates", ("--variants", "bfloat16")),
    Stage("update-more", "Update, float32 and LoRA", 60, "updates", ("--variants", "more")),
    Stage("iteration", "One iteration, engine=transformers", 60, "iterations", ONE_ITERATION),
    Stage("starter", "Recipe for Sokoban, 20 iterations", 60, "starter"),
    Stage("vllm", "vLLM, started once", 390, "vllm_run", attempts=ATTEMPTS),
)  # fmt: skip


def chosen_stages(names: Sequence[str]) -> list[Stage]:
    """Return the stages of some names in their order, or all, each with what it lacks on this machine."""
    by_name = {stage.name: stage for stage in STAGES}
    lacks = "" if find_spec("vllm") else "vLLM is not installed"
    return [
        replace(stage, lacks=lacks if stage.attempts else "")
        for stage in (by_name[name] for name in names or by_name)
    ]
