"""Drawings of matplotlib as SVG, and the style of those of sweeps and of the paper's figures."""

import base64
import io
from typing import Any, Final

from matplotlib.figure import Figure

STYLE: Final[Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "ragen",
}
"""Style of drawings, for `matplotlib.rc_context`; its salt makes the same drawing the same bytes."""


def svg_of(figure: Figure) -> str:
    """Return a figure as the text of an SVG file."""
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg", metadata={"Date": None})
    return drawing.getvalue()


def image_source(svg: str) -> str:
    """Return an SVG file as the source of an image that holds it whole."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
