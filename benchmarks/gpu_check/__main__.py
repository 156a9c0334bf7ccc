"""``make gpu``: run every stage, go on after a failure, and write the page.

``PYTHONPATH=benchmarks python -m gpu_check --cpu-rehearsal`` runs all of it on a CPU with tiny sizes, to see
that it runs; its page goes to the folder of the results, not to docs/.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from gpu_check.device import gpus
from gpu_check.hardware import PAGE, describe
from gpu_check.page import page
from gpu_check.runner import run_all
from gpu_check.stages import all_stages

ROOT: Final = Path(__file__).parents[2]
NO_GPU: Final = 2


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if every stage passed, 1 if one did not, 2 if there is no GPU."""
    parser = argparse.ArgumentParser(prog="gpu_check", description="Test and measure on a GPU.")
    parser.add_argument("--work", type=Path, default=ROOT / ".benchmarks/gpu", help="for results")
    parser.add_argument("--only", action="append", metavar="STAGE", help="may be repeated")
    parser.add_argument("--engine", choices=("vllm", "transformers"), help="instead of vllm")
    parser.add_argument("--cpu-rehearsal", action="store_true", help="tiny sizes, without a GPU")
    args = parser.parse_args(arguments)
    if not args.cpu_rehearsal and not gpus():
        print("make gpu needs a CUDA GPU, but the driver shows none", file=sys.stderr)
        return NO_GPU
    work = args.work.absolute()
    stages = all_stages(ROOT, work, args.cpu_rehearsal, args.engine)
    unknown = sorted(set(args.only or ()) - {stage.name for stage in stages})
    if unknown:
        parser.error(f"no stage {unknown[0]}; there are {', '.join(s.name for s in stages)}")
    made_on = describe()
    chosen = [stage for stage in stages if not args.only or stage.name in args.only]
    outcomes = run_all(chosen, ROOT, work, made_on)
    page_file = ROOT / PAGE
    target = work / page_file.name if args.cpu_rehearsal or args.only else page_file
    target.write_text(page(made_on, outcomes), encoding="utf-8")
    print(f"wrote {target}", flush=True)
    failed = [outcome for outcome in outcomes if outcome.status != "passed"]
    for outcome in failed:
        print(f"{outcome.title}: {outcome.status}; all it said is in {outcome.log}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
