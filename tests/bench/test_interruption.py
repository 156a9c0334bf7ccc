"""Ctrl-C in commands that have nothing to resume."""

import pytest
from ragen_bench.__main__ import main


def test_ctrl_c_before_anything_was_played_promises_nothing(tmp_path, monkeypatch, capsys):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("ragen_bench.evaluation.runner.missing_agents", interrupt)
    out = tmp_path / "run"
    assert main(["bench", "--agent", "random", "--game", "Bandit", "--out", str(out)]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted; no episode was finished"


@pytest.mark.parametrize(("command", "module"), [(["games"], "games"), (["power"], "show")])
def test_ctrl_c_says_that_the_command_was_interrupted(command, module, monkeypatch, capsys):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"ragen_bench.cli.{module}.print_table", interrupt)
    assert main(command) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted"
