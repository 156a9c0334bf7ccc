"""``PYTHONPATH=benchmarks python -m credit [GAME]``: audit a game, or write the tables of docs/credit.md."""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from page_blocks import filled

from credit.audit import GAMES, Plan, audit
from credit.report import summary, table
from credit.turns import AuditedTurn

_PAGE: Final = Path(__file__).parents[2] / "docs" / "credit.md"
_RESULTS: Final = Path(__file__).with_name("results")


def tables(folder: Path = _RESULTS) -> dict[str, str]:
    """Return each kept game's table by its name in the page."""
    found = {}
    for path in sorted(folder.glob("*.jsonl")):
        turns = _read(path)
        found[path.stem] = f"{summary(turns)}\n\n{table(turns)}"
    return found


def _read(path: Path) -> list[AuditedTurn]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [AuditedTurn.from_dict(json.loads(line)) for line in lines]


def main(arguments: list[str] | None = None) -> int:
    """Audit, or write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("game", nargs="?", choices=GAMES, help="play and keep its turns")
    parser.add_argument("--model", default="starter", help="policy that is audited")
    parser.add_argument("--groups", type=int, default=24, help="levels")
    parser.add_argument("--copies", type=int, default=32, help="continuations of each state")
    parser.add_argument("--critic-iterations", type=int, default=20)
    parser.add_argument("--out", type=Path, help="file of the turns")
    parser.add_argument("--check", action="store_true", help="exit 1 if the page differs")
    given = parser.parse_args(arguments)
    if given.game is None:
        return _write_page(given.check)
    plan = Plan(
        GAMES[given.game], given.model, given.groups, copies=given.copies,
        critic_iterations=given.critic_iterations,
    )  # fmt: skip
    turns = audit(plan)
    out = given.out or _RESULTS / f"{given.game}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(json.dumps(turn.as_dict()) + "\n" for turn in turns), encoding="utf-8")
    print(summary(turns), table(turns), sep="\n\n")
    return 0


def _write_page(check: bool) -> int:
    before = _PAGE.read_text(encoding="utf-8")
    after = filled(before, tables())
    if check:
        return int(before != after)
    _PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
