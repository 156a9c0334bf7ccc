"""Measure the limits of the device: bytes copied and products of matrices."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from gpu_check.findings import Findings, stage_parser


def main() -> None:
    """Measure and write the findings."""
    args = stage_parser("Measure the ceilings of the device.").parse_args()
    findings = Findings(args.json)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    size, count = (256, 2**16) if args.tiny else (8192, 2**30)
    source = torch.empty(count, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    seconds = median_seconds(lambda: target.copy_(source), device)
    findings.add("copy_gb_s", round(2 * count / seconds / 1e9, 1))
    for name, dtype, tf32 in (
        ("bfloat16_tflops", torch.bfloat16, False),
        ("float32_tflops", torch.float32, False),
        ("tf32_tflops", torch.float32, True),
    ):
        left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
        with tf32_products(tf32):
            seconds = median_seconds(lambda a=left, b=right: a @ b, device)  # type: ignore[misc]
        findings.add(name, round(2 * size**3 / seconds / 1e12, 3))


def median_seconds(work: Callable[[], object], device: torch.device, repeats: int = 10) -> float:
    """Return the median duration of some work after two runs to warm up."""
    times = []
    for _ in range(repeats + 2):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - started)
    return statistics.median(times[2:])


def wait(device: torch.device) -> None:
    """Wait until a device has done all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def tf32_products(allowed: bool) -> Iterator[None]:
    """Let products of float32 matrices round their operands to TF32, or forbid it."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


if __name__ == "__main__":
    main()
