"""The recipe for Sokoban, 20 iterations: success before and after."""

import os
from contextlib import suppress
from typing import Any, Final

from ragen_bench.training.train_settings import recipe_config

from gpu_check.findings import Findings, stage_parser
from gpu_check.iterations import EnoughError, Stopwatch, summary
from ragen_agents.starpo.callbacks import Callback
from ragen_agents.starpo.trainer import Trainer

ITERATIONS: Final = 20
FULL: Final = ("evaluation.episodes=256",)
TINY: Final = ("rollout.prompts_per_iteration=2", "evaluation.episodes=8")


class Success(Callback):
    """Adds the success on validation levels to findings, before and after.

    Args:
        findings: Where they go.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings

    def on_evaluate(self, trainer: Trainer, iteration: int, metrics: dict[str, float]) -> None:  # noqa: ARG002
        """Add it."""
        when = "after" if iteration else "before"
        self._findings.add(f"success_{when}", metrics["validation/success"])


def main() -> None:
    """Train and write the findings; fail if success has not grown."""
    args = stage_parser(__doc__ or "").parse_args()
    count = 2 if args.tiny else ITERATIONS
    given = [f"iterations={count + 1}", f"evaluation.every={count}", "save_every=10000"]
    config = recipe_config("sokoban", [*given, *(TINY if args.tiny else FULL)])
    findings = Findings(args.json)

    def report(rows: list[dict[str, Any]]) -> None:
        findings.add("summary", summary(rows, config), shown=False)

    callbacks = [Success(findings), Stopwatch(count, report)]
    with suppress(EnoughError):
        Trainer(config, args.work / f"starter-{os.getpid()}", callbacks=callbacks).run()
    print(findings.values["summary"], flush=True)
    before, after = (findings.values[f"success_{when}"] for when in ("before", "after"))
    if not args.tiny and after <= before:
        findings.add("wrong", f"success went from {before:.3f} to {after:.3f}")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
