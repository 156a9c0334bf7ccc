"""Everything that needs vLLM, in one process that starts it once; each part has its own limit."""

import faulthandler
import gc
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")

import torch
from transformers.utils import logging as transformers_logging

from gpu_check.findings import Findings, stage_parser
from gpu_check.iterations import Stopwatch, memory_plan, summary, timed
from gpu_check.phase_memory import PhaseMemory
from gpu_check.shared_vllm import SharedVllm, losing_weights
from gpu_check.test_run import FOLDER, REHEARSAL, run_tests
from gpu_check.workload import PAPER, TINY, TINY_RUN, model_folder, paper_settings
from ragen_agents.engines.base import EngineError
from ragen_agents.engines.weights import probe, probed
from ragen_agents.starpo import merged
from ragen_agents.starpo.memory.training_memory import GIB
from ragen_agents.starpo.rollout_step import training_groups
from ragen_agents.starpo.trainer import Trainer

ITERATIONS: Final = 3
_STEP: Final = 1e-6
"""What the lost update adds to each weight or takes from it, as a step of Adam with the paper's rate does."""


class Checks:
    """The parts, which share vLLM and, up to the iterations of all trajectories, a trainer.

    Args:
        args: The command line's.
        findings: Where their results go.
    """

    def __init__(self, args: Any, findings: Findings) -> None:
        self._args, self._findings = args, findings
        self._vllm = SharedVllm()
        self._trainer: Trainer | None = None
        self._memory: PhaseMemory

    def start(self) -> dict[str, Any]:
        """Load trainer and vLLM."""
        started = time.perf_counter()
        self._make("all-kept", "starpo-ppo")
        seconds = time.perf_counter() - started
        return {
            "vllm_seconds": round(self._vllm.seconds, 1), "seconds": round(seconds, 1),
            **self._vllm.described(),
        }  # fmt: skip

    def episodes(self) -> dict[str, Any]:
        """Generate the episodes of an iteration."""
        trainer = self._trainer
        assert trainer is not None
        self._sync(0)
        started = time.perf_counter()
        trajectories = trainer.collector.collect(training_groups(trainer.config, 0), 0)
        seconds = time.perf_counter() - started
        tokens = sum(t.written for t in trajectories)
        return {
            "episodes": len(trajectories), "seconds": round(seconds, 2), "reply_tokens": tokens,
            "reply_tokens_per_second": round(tokens / seconds),
        }  # fmt: skip

    def sleep(self) -> dict[str, Any]:
        """Wake up, sleep, wake up again, and compare log-probabilities of a fixed prompt."""
        trainer = self._trainer
        assert trainer is not None
        self._sync(0)
        seconds = {"sync": self._sync(0)}
        awake = _free()
        started = time.perf_counter()
        trainer.engine.release()
        seconds["sleep"] = time.perf_counter() - started
        freed = _free() - awake
        seconds["wake and sync"] = self._sync(0)
        policy = trainer.learner.whole_policy()
        gaps = torch.tensor(probed(policy)) - torch.tensor(self._vllm.model.score(probe(policy)))
        return {
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
            "freed_gib": round(freed / GIB, 2), "gap_nats": float(gaps.abs().mean()),
        }  # fmt: skip

    def missed_update(self) -> dict[str, Any]:
        """Lose one small update on its way to vLLM, which must be noticed; the next one must arrive.

        Raises:
            ValueError: It was not noticed.
        """
        trainer = self._trainer
        assert trainer is not None
        policy = trainer.learner.whole_policy()
        torch.manual_seed(1)
        with torch.no_grad():
            for weight in policy.parameters():
                weight.add_(torch.randn_like(weight).sign(), alpha=_STEP)
        with losing_weights(self._vllm.model):
            try:
                self._sync(1)
            except EngineError as error:
                noticed = str(error)[:200]
            else:
                raise ValueError("an update that vLLM did not load was not noticed")
        self._sync(2)
        return {"noticed": noticed}

    def all_kept(self) -> dict[str, Any]:
        """Run iterations that learn from all trajectories."""
        return self._iterate("all_kept")

    def quarter_kept(self) -> dict[str, Any]:
        """Run iterations that learn from a quarter of the groups."""
        if self._trainer is not None:
            self._trainer.engine.release()
        self._trainer = None
        gc.collect()
        torch.cuda.empty_cache()
        self._make("quarter-kept", "starpo-s")
        return self._iterate("quarter_kept")

    def tests(self) -> Any:
        """Run the tests of vLLM on this trainer and return their outcomes.

        Raises:
            ValueError: Some failed.
        """
        if not torch.cuda.is_available():
            os.environ[REHEARSAL] = "1"
        wrong = run_tests(self._findings, [FOLDER / "test_cuda_vllm.py"], SharedRun(self._trainer))
        if wrong:
            raise ValueError(wrong)
        return self._findings.values["tests"]

    def close(self) -> None:
        """End vLLM."""
        self._vllm.close()

    def _make(self, name: str, preset: str) -> None:
        args = self._args
        shape = TINY if args.tiny else PAPER
        own: dict[str, Any] = {
            "model": str(model_folder(args.work / f"model-{shape}", shape)), "engine": "vllm",
            "iterations": ITERATIONS + 1, "vllm": {"cache_gib": 0.25} if args.tiny else {},
        }  # fmt: skip
        if args.extra:
            own["vllm"]["extra"] = args.extra
        config = paper_settings(preset, merged(TINY_RUN if args.tiny else {}, own))
        self._memory = PhaseMemory()
        stopwatch = Stopwatch(ITERATIONS, lambda rows: self._report(name, rows))
        folder: Path = args.work / f"run-{name}-{os.getpid()}"
        self._trainer = Trainer(config, folder, callbacks=[stopwatch, self._memory])

    def _report(self, name: str, rows: list[dict[str, Any]]) -> None:
        assert self._trainer is not None
        part = name.replace("-", "_")
        self._findings.add(part, summary(rows, self._trainer.config), shown=False)

    def _iterate(self, part: str) -> dict[str, Any]:
        trainer, memory = self._trainer, self._memory
        assert trainer is not None
        plan = memory_plan(trainer.config)
        timed(trainer, memory)
        return {**self._findings.values[part], "memory": memory.against(plan)}

    def _sync(self, version: int) -> float:
        """Hand the weights over and return the seconds that it took."""
        assert self._trainer is not None
        started = time.perf_counter()
        self._trainer.engine.sync(self._trainer.learner.whole_policy(), version)
        return time.perf_counter() - started


class SharedRun:
    """A plugin of pytest that has tests/gpu take a trainer instead of making one.

    Args:
        run: The trainer.
    """

    def __init__(self, run: Trainer | None) -> None:
        self._run = run

    def pytest_configure(self, config: Any) -> None:
        """Leave the trainer where tests/gpu/conftest.py looks for it."""
        config.shared_run = self._run


def _free() -> int:
    """Return the free bytes of the GPU, 0 without one."""
    return int(torch.cuda.mem_get_info()[0]) if torch.cuda.is_available() else 0


def main() -> None:
    """Run the parts and write the findings; fail if one does."""
    parser = stage_parser(__doc__ or "")
    parser.add_argument("--extra", type=json.loads, default={}, help="vllm.extra, as JSON")
    args = parser.parse_args()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    findings = Findings(args.json)
    checks = Checks(args, findings)
    parts: list[tuple[float, Callable[[], Any]]] = [
        (110, checks.start), (45, checks.episodes), (45, checks.sleep), (30, checks.missed_update),
        (100, checks.all_kept), (90, checks.quarter_kept), (80, checks.tests),
    ]  # fmt: skip
    wrong, errors = "", os.dup(2)  # pytest takes the place of stderr for a while
    for limit, part in parts:
        name = part.__name__
        findings.add("running", name)
        # Ends the process with all tracebacks if the part hangs.
        faulthandler.dump_traceback_later(limit, exit=True, file=errors)
        try:
            findings.add(name, part())
        except Exception as error:
            traceback.print_exc()
            wrong = wrong or f"{name}: {error}"[:200]
            findings.add("wrong", wrong)
            if name == "start":
                break
        finally:
            faulthandler.cancel_dump_traceback_later()
    findings.add("running", "")
    checks.close()
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
