"""The tests of tests/gpu without vLLM; each outcome is written when it is known."""

import os
from pathlib import Path
from typing import Any, Final

import pytest

from gpu_check.findings import Findings, stage_parser

FOLDER: Final = Path(__file__).parents[2] / "tests/gpu"
REHEARSAL: Final = "RAGEN_GPU_REHEARSAL"
"""Environment variable under which the tests run on a CPU, without what only CUDA has."""


class Recorder:
    """A plugin of pytest that adds the outcome of each test to findings.

    Args:
        findings: Where they go, under "tests".
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self.rows: list[dict[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what decides about a test: its call, or a set-up that skipped or failed."""
        if report.when == "teardown" and not report.failed:
            return
        if report.when == "setup" and report.passed:
            return
        why = "" if report.passed else _reason(report)
        name = report.nodeid.rpartition("/")[2]
        self.rows = [row for row in self.rows if row["test"] != name]
        self.rows.append({"test": name, "outcome": report.outcome, "why": why})
        self._findings.add("tests", self.rows, shown=False)

    @property
    def wrong(self) -> str:
        """The tests that failed and the first one's reason, in a line; empty if none did."""
        failed = [row for row in self.rows if row["outcome"] == "failed"]
        if not self.rows:
            return "no test was run"
        return f"{len(failed)} failed; {failed[0]['test']}: {failed[0]['why']}" if failed else ""


def run_tests(findings: Findings, files: list[Path], *plugins: Any) -> str:
    """Run files of tests in this process; returns what is wrong, in a line, or nothing."""
    recorder = Recorder(findings)
    given = ["-q", "-rf", "-p", "no:cacheprovider", "--tb=short", *map(str, files)]
    code = pytest.main(given, [recorder, *plugins])
    wrong = recorder.wrong
    return wrong or ("" if code == 0 else f"pytest ended with {int(code)}")


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:200]
    crash = getattr(report.longrepr, "reprcrash", None)
    return (str(crash.message) if crash else report.longreprtext).split("\n")[0][:200]


def main() -> None:
    """Run the tests and write the findings."""
    args = stage_parser(__doc__ or "").parse_args()
    if args.tiny:
        os.environ[REHEARSAL] = "1"
    findings = Findings(args.json)
    files = [f for f in sorted(FOLDER.glob("test_*.py")) if f.name != "test_cuda_vllm.py"]
    if wrong := run_tests(findings, files):
        findings.add("wrong", wrong)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
