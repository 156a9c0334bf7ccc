"""``ragen report``: a training run as an HTML page."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a training run.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page.", show_default="RUN/report.html"),
    ] = None,
) -> None:
    """Write one self-contained HTML page of a training run: curves, warnings, conversations."""
    from ragen_bench.training.html_report import write_report

    page = out or run / "report.html"
    write_report(run, page)
    print(page)
