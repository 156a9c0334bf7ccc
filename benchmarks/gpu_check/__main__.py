"""Run the stages that have not passed yet, and print a table; or write the page from results.

``python -m gpu_check`` needs this checkout and its folder ``benchmarks`` on PYTHONPATH; no installation,
network or git.
``python -m gpu_check page RESULTS`` writes docs/performance-gpu.md, on any machine, and keeps the results
that it is made from in benchmarks/results/gpu.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from gpu_check.console import Console
from gpu_check.device import gpus, lacking
from gpu_check.hardware import describe
from gpu_check.page import PAGE, PUBLISHED, ROOT, page
from gpu_check.results import RESULTS, Results, read_results
from gpu_check.runner import Runner
from gpu_check.stages import STAGES, chosen_stages
from gpu_check.summary import Numbers, as_text

NO_GPU: Final = 2
_NO_DEADLINE: Final = 7200.0
_SHARED_CPU: Final = 4.0
"""Factor of the limits in a rehearsal, whose processor may have other work."""


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if every stage passed, 1 if one did not, 2 if there is no GPU."""
    started = time.monotonic()
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="page")
    writing = commands.add_parser("page", help="write the page from a folder of results")
    writing.add_argument("results", type=Path, nargs="?", default=PUBLISHED)
    writing.add_argument("--to", type=Path, help="another file, without keeping the results")
    parser.add_argument(
        "--results", type=Path, default=ROOT / ".benchmarks/gpu/results", help="for small files"
    )
    parser.add_argument(
        "--work", type=Path, default=ROOT / ".benchmarks/gpu/work", help="for logs and large files"
    )
    parser.add_argument("--deadline", type=float, default=_NO_DEADLINE, help="seconds for everything")
    parser.add_argument("--commit", help="of the code, where git cannot be asked")
    parser.add_argument(
        "--stages", default="", help=f"some of {','.join(s.name for s in STAGES)}; all by default"
    )
    parser.add_argument("--tiny", action="store_true", help="sizes for a rehearsal without a GPU")
    args = parser.parse_args(arguments)
    if args.command == "page":
        _write_page(args.results, args.to)
        return 0
    names = [name for name in args.stages.split(",") if name]
    unknown = sorted(set(names) - {stage.name for stage in STAGES})
    if unknown:
        parser.error(f"no stage {unknown[0]}; there are {', '.join(s.name for s in STAGES)}")
    if not args.tiny and not gpus():
        print("gpu_check needs a CUDA GPU, but the driver shows none; --tiny rehearses on a CPU",
              file=sys.stderr)  # fmt: skip
        return NO_GPU
    return _run(args, names, started + args.deadline)


def _write_page(folder: Path, to: Path | None) -> None:
    if to is None and folder.resolve() != PUBLISHED:
        PUBLISHED.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / RESULTS, PUBLISHED / RESULTS)
    (to or PAGE).write_text(page(read_results(folder)), encoding="utf-8")


def _run(args: argparse.Namespace, names: list[str], deadline: float) -> int:
    console, work = Console(), args.work.absolute()
    results = Results(args.results.absolute(), work)
    made_on = describe(args.commit)
    if not args.tiny and (lacks := lacking()) is not None:
        console.line(f"this machine lacks {lacks}")
    console.line(f"{made_on['GPU']}, PyTorch {made_on['PyTorch']}, vLLM {made_on['vLLM']}")
    common = ["--work", str(work), *(["--tiny"] if args.tiny else [])]
    stages = chosen_stages(names)
    runner = Runner(ROOT, work, common, made_on, deadline, _SHARED_CPU if args.tiny else 1.0)
    runner.run_all(stages, results, console)
    numbers = Numbers(results.outcomes)
    console.table(as_text(numbers.tables()))
    chosen = {stage.name for stage in stages}
    failed = [o for o in results.outcomes if o.name in chosen and o.status not in ("passed", "skipped")]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
