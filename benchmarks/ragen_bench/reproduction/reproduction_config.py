"""Load a table or figure of the paper: the sweep, the paper's numbers, the claims."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import Field

from ragen_bench.config.bundled import bundled_names, load_named
from ragen_bench.config.suites import Name, StrictModel
from ragen_bench.training_sweeps.sweep_config import Sweep, load_sweep
from ragen_envs.errors import RagenError

OTHER_LEVELS: Final = {
    "Bandit": "one fixed pair of names instead of many",
    "BanditRev": "one fixed pair of names for training and one for tests instead of many",
    "SokobanNewVocab": "search depth 30 instead of 300",
}
"""The paper's levels where they differ from ours, by test."""

MARK: Final = "*"
"""Follows a number of the paper that was measured on other levels."""


def paper_mark(test: str) -> str:
    """Return the mark of the paper's numbers for a test, or ""."""
    return MARK if test in OTHER_LEVELS else ""


def paper_notes(tests: Iterable[str]) -> list[str]:
    """Return a note for each of the tests whose numbers are marked."""
    return [
        f"{MARK} the paper's {test} has other levels: {OTHER_LEVELS[test]}"
        for test in dict.fromkeys(tests)
        if test in OTHER_LEVELS
    ]


Scalar = Literal[
    "seconds", "thought", "reply", "template", "deviation", "kept", "peak", "fall", "first-move",
    "information-success", "entropy-success", "information-over-entropy", "policy-rise", "entropy-rise",
    "divergence-rise",
]  # fmt: skip
"""A number of one run; see `ragen_bench.reproduction.run_measures`."""
Event = Literal[
    "collapse", "deviation-first", "deviation-together", "entropy-wanders", "entropy-decays",
    "gradient-spike", "information-first", "valid-template",
]  # fmt: skip
"""Something that happens in a run; see `ragen_bench.reproduction.run_measures`."""
Structure = Literal["turns", "thoughts", "critic", "divergence", "filter", "pretrained"]
"""A part of the paper's setting; see `ragen_bench.reproduction.claims`."""
Origin = Literal["RAGEN", "RAGEN-2", "own"]
"""Source of a claim; "own" is a question or a control of this project, which the papers do not have."""


class Column(StrictModel):
    """A column of the table."""

    train: Name
    """The game that was trained on."""
    test: Name
    """The task that was tested."""


class _Claim(StrictModel):
    """A claim with its premises; where one of them fails, no verdict is given."""

    text: str
    origin: Origin = "RAGEN"
    where: str = ""
    """Section and figure or table of the paper; "" for own questions only."""
    needs: list[Structure] | None = None
    """Parts of the paper's setting that it is about; None for turns, or for nothing in own questions."""
    differs: dict[Structure, str] = Field(default_factory=dict)
    """Structure that differs from the paper and does not matter: the words of the claim about it."""
    supposes: Literal["learns", "collapses"] | None = None
    """Required behaviour of the baseline on held-out levels: end above the initial model, or gain and then
    collapse."""
    baseline: Name | None = None
    """The cell that this is about; None for that in ``less`` of success claims, else the first named."""
    changed: int = Field(default=0, ge=0)
    """Number of changes after runs that decide it existed, its making included (docs/claims-history.md)."""

    @property
    def shown(self) -> str:
        """The claim with the differences to the paper's setting that it names."""
        return ", ".join([self.text, *self.differs.values()])

    @property
    def needed(self) -> list[Structure]:
        """Parts of the paper's setting that must be there."""
        default: list[Structure] = [] if self.origin == "own" else ["turns"]
        needs = default if self.needs is None else self.needs
        return [part for part in needs if part not in self.differs]


class SuccessClaim(_Claim):
    """One cell solves more test levels than another."""

    kind: Literal["success"]
    more: Name
    less: Name
    columns: list[int] | None = None
    """Numbers of the table's columns that are taken together; None for all."""
    equal: bool = False
    """Whether the claim is that they differ by less than five points."""


class ScalarClaim(_Claim):
    """A number of a run is larger in one cell than in another, or larger than zero, or about zero."""

    kind: Literal["scalar"]
    scalar: Scalar
    train: Name
    """The game that was trained on."""
    paper: str = ""
    """The paper's statement, as it is shown."""
    effect: float | None = None
    """The paper's size where it prints one: as a share for changes, such as -0.73, else as the number."""
    flat: bool = False
    """Whether the claim is that the number of ``more`` is about zero; only for correlations."""
    more: Name | None = None
    """None for zero."""
    less: Name | None = None
    """None for zero."""


class ShareClaim(_Claim):
    """Something happens to most of the runs of a cell, or to few, or to more than of another cell."""

    kind: Literal["share"]
    event: Event
    train: Name
    cell: Name
    most: bool = True
    """Whether it happens to more than half of them, or to fewer."""
    less: Name | None = None
    """The cell to whose runs it happens less often; then ``most`` says nothing."""


class Stages(StrictModel):
    """A second table: a metric of training where it begins, half way, and where it ends."""

    metric: str
    """One of the curves that results keep."""
    title: str
    paper: dict[Name, dict[Name, Annotated[list[float], Field(min_length=3, max_length=3)]]]
    """The paper's numbers at these places, by game and cell."""


class Published(StrictModel):
    """A curve of the paper, read off by eye."""

    game: Name
    cell: Name
    points: list[Annotated[list[float], Field(min_length=2, max_length=2)]]
    """Steps and success in percent."""


Claim = Annotated[SuccessClaim | ScalarClaim | ShareClaim, Field(discriminator="kind")]


class Reproduction(StrictModel):
    """One table or figure."""

    name: Name
    title: str
    sweep: Name
    columns: list[Column] = Field(min_length=1)
    paper: dict[Name, list[float | None]] = Field(default_factory=dict)
    """The paper's success rates in percent by cell, for each column; None where it prints none."""
    source: str = ""
    """Meaning of the paper's numbers."""
    curves: list[str] = Field(default_factory=lambda: ["validation/success"])
    """The metrics of training that are drawn."""
    lines: list[list[Name]] = Field(default_factory=list)
    """Cells that are drawn together, at most four to a panel; none for one panel of all."""
    published: list[Published] = Field(default_factory=list)
    """The paper's curves of success."""
    steps: dict[str, dict[Name, int]] = Field(default_factory=dict)
    """Step at which the paper sees each sign, by sign and game."""
    passes: bool = False
    """Whether curves are drawn by passes over the rollouts, for cells that differ in those."""
    stages: Stages | None = None
    """A table of how a metric went, beside the paper's."""
    claims: list[Claim] = Field(default_factory=list)

    def load_sweep(self) -> Sweep:
        """Return its sweep."""
        return load_sweep(self.sweep)

    def columns_of(self, claim: SuccessClaim) -> list[Column]:
        """Return the columns that a claim takes together."""
        return self.columns if claim.columns is None else [self.columns[i] for i in claim.columns]

    def cells_of(self, claim: Claim) -> list[tuple[str, str]]:
        """Return the games and cells whose runs decide a claim, each once."""
        if isinstance(claim, SuccessClaim):
            games = [column.train for column in self.columns_of(claim)]
        else:
            games = [claim.train]
        cells = (claim.cell if isinstance(claim, ShareClaim) else claim.more, claim.less, claim.baseline)
        return list(dict.fromkeys((game, cell) for game in games for cell in cells if cell is not None))


def bundled_reproductions() -> list[str]:
    """Return the names of all tables and figures, tables first."""
    names = bundled_names("reproduction")
    digits = str.maketrans("", "", "0123456789")
    order = {"table": 0, "figure": 1}
    return sorted(names, key=lambda n: (order.get(n.translate(digits), 2), len(n), n))


def load_reproduction(name: str) -> Reproduction:
    """Load a table or figure by its name."""
    known = bundled_reproductions()
    if name not in known:
        raise RagenError(f"unknown table or figure '{name}'; known are {', '.join(known)}, all")
    return load_named(Reproduction, "reproduction", "reproduction", name)


def games_of(exhibit: Reproduction, scale: str) -> list[str]:
    """Return the games that are trained on: those of its columns that the sweep's scale has."""
    trained = list(dict.fromkeys(column.train for column in exhibit.columns))
    chosen = next((s.games for name, s in exhibit.load_sweep().scales.items() if name == scale), None)
    return [game for game in trained if chosen is None or game in chosen]
