"""The page of a training run."""

import base64
import json
import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from huggingface_hub.errors import HfHubHTTPError
from ragen_bench.__main__ import main

from ragen_agents.run_files.yaml_files import dump_yaml
from ragen_agents.starpo import TrainConfig


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text(dump_yaml(TrainConfig().model_dump(mode="json")))
    metrics = [{"iteration": 0, "validation/success": 0.25}]
    for i in range(1, 6):
        metrics.append({"iteration": i, "success": 0.1 * i, "entropy": 0.5, "grad_norm": 1.0 / i,
                        "warnings": ["entropy <fell>"] if i == 4 else []})  # fmt: skip
    metrics[-1]["validation/success"] = 0.5
    (folder / "metrics.jsonl").write_text("".join(json.dumps(m) + "\n" for m in metrics))
    (folder / "environment.json").write_text('{"packages": {"ragen-suite": "0.3.0"}}')
    samples = [
        {"iteration": i, "kind": "validation", "group": 0, "return": 1.0, "success": i > 0,
         "end": "budget", "messages": [{"role": "assistant", "content": f"<script>alert({i})</script>"}]}
        for i in (0, 5)
    ]  # fmt: skip
    (folder / "samples.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    return folder


def test_the_page_shows_curves_warnings_and_conversations(run, capsys):
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    page = (run / "report.html").read_text()
    assert page.count('src="data:image/svg+xml;base64,') == 3
    assert "50.0% after iteration 5" in page
    assert "iteration 4: entropy &lt;fell&gt;" in page
    assert "After iteration 0" in page
    assert "After iteration 5" in page
    assert "turns or actions used up" in page  # "budget" in the records


def test_quantities_have_axes_of_their_own_with_units(run):
    main(["report", str(run)])
    titles = re.findall(r'alt="(.*?) by iteration"', (run / "report.html").read_text())
    assert titles == ["success", "entropy", "gradient norm of the policy"]
    pictures = re.findall(r"base64,([\w+/=]+)", (run / "report.html").read_text())
    texts = [base64.b64decode(picture).decode() for picture in pictures]
    for text, unit in zip(texts, ("%", "nats a token", "norm"), strict=True):
        assert f"<!-- {unit} -->" in text
        assert "<!-- iteration -->" in text
    assert "<!-- 100 -->" in texts[0]  # success ends at 50%, but its axis at all levels


@pytest.mark.parametrize("think", [True, False])
def test_thoughts_are_drawn_where_there_are_some(run, think):
    config = TrainConfig(env_kwargs={"think": think})
    (run / "config.yaml").write_text(dump_yaml(config.model_dump(mode="json")))
    (run / "metrics.jsonl").write_text('{"iteration": 1, "template_share": 1.0, "claims/made": 0.0}\n')
    main(["report", str(run)])
    assert ("thought" in (run / "report.html").read_text()) is think


def test_every_way_to_end_is_drawn(run):
    (run / "metrics.jsonl").write_text('{"iteration": 1, "end/invalid": 1.0}\n')
    main(["report", str(run)])
    assert 'alt="how episodes end by iteration"' in (run / "report.html").read_text()


def test_conversations_of_training_are_those_of_an_iteration_not_after_it(run):
    samples = (run / "samples.jsonl").read_text().replace("validation", "train")
    (run / "samples.jsonl").write_text(samples)
    main(["report", str(run)])
    page = (run / "report.html").read_text()
    assert "In iteration 5" in page
    assert "After iteration" not in page


def test_all_plots_go_over_the_same_iterations(run):
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    metrics[3]["kl_step"] = 0.1  # measured once
    (run / "metrics.jsonl").write_text("".join(json.dumps(m) + "\n" for m in metrics))
    main(["report", str(run)])
    pictures = re.findall(r"base64,([\w+/=]+)", (run / "report.html").read_text())
    assert len(pictures) == 4
    for text in (base64.b64decode(picture).decode() for picture in pictures):
        assert all(f"<!-- {iteration} -->" in text for iteration in range(6))


def test_the_page_is_inert_and_needs_nothing_else(run):
    main(["report", str(run)])
    page = (run / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(5)" in page
    assert "default-src 'none'" in page
    assert not re.search(r'(?:src|href)="(?!data:)', page)


def test_what_is_no_run_is_named(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "is not a training run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "data", "words"),
    [
        ("metrics.jsonl", b"\xff\xfe\n", "metrics.jsonl' cannot be read"),
        ("metrics.jsonl", b"[1]\n", "metrics.jsonl line 1 is corrupt: it must be a mapping with"),
        ("metrics.jsonl", b'{"success": 1}\n', "metrics.jsonl line 1 is corrupt"),
        ("samples.jsonl", b"\xff\xfe\n", "samples.jsonl' cannot be read"),
        ("samples.jsonl", None, "there is no file '"),
        ("samples.jsonl", b"{\n", "samples.jsonl line 1 is corrupt"),
        ("samples.jsonl", b'{"iteration": 1}\n', "samples.jsonl line 1 is corrupt: it must be a mapping"),
    ],
)  # fmt: skip
def test_a_damaged_file_of_a_run_is_one_line(file, data, words, run, capsys):
    if data is None:
        (run / file).unlink()
    else:
        (run / file).write_bytes(data)
    assert main(["report", str(run)]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert words in said[0]


def test_the_end_of_a_run_says_whether_it_learned(run):
    from ragen_bench.training.run_summary import run_summary

    (run / "best").mkdir()
    assert run_summary(run) == [
        "validation success: 25.0% initially, 50.0% at the end (iteration 5)",
        "trained: 5 iterations in 0 s",
        "iterations with warnings: 1 (first: 4); see the report",
        f"run: {run}",
        f"report: ragen report {run}",
        f"score: ragen bench --agent {run / 'best'} --game Sokoban",
    ]


def test_the_end_of_a_run_counts_one_iteration(run):
    from ragen_bench.training.run_summary import run_summary

    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    first = next(line for line in lines if json.loads(line)["iteration"] == 1)
    metrics.write_text(first)
    assert any(line.startswith("trained: 1 iteration in ") for line in run_summary(run))


def test_the_end_of_a_run_names_the_settings_to_score_it_under(run):
    from ragen_bench.training.run_summary import run_summary

    kwargs = {"think": False, "history": "none"}
    config = TrainConfig(game="ragen/WebShopText-v0", env_kwargs=kwargs)
    (run / "config.yaml").write_text(dump_yaml(config.model_dump(mode="json")))
    options = "--game WebShop --setting think=false --setting history=none"
    assert run_summary(run)[-1].endswith(options)


def test_the_end_of_a_run_names_the_sampling_to_score_it_under(run):
    from ragen_bench.training.run_summary import run_summary

    sampling = {"rollout": {"max_tokens": 48}, "evaluation": {"temperature": 0.0}}
    config = TrainConfig(env_kwargs={"think": False}, **sampling)
    (run / "config.yaml").write_text(dump_yaml(config.model_dump(mode="json")))
    assert run_summary(run)[-1].endswith(
        "--game Sokoban --setting think=false --max-reply-tokens 48 --temperature 0"
    )


def test_the_end_of_a_run_on_a_fixed_level_names_no_benchmark(run):
    from ragen_bench.training.run_summary import run_summary

    level = "######\n#_P__#\n#_X__#\n#_O__#\n#____#\n######"
    config = TrainConfig(env_kwargs={"level": level})
    (run / "config.yaml").write_text(dump_yaml(config.model_dump(mode="json")))
    assert not any(line.startswith("score:") for line in run_summary(run))


def test_the_end_of_a_run_imports_the_game_to_score_it_on(run, tmp_path, monkeypatch):
    from ragen_bench.config import extensions
    from ragen_bench.training.run_summary import run_summary

    monkeypatch.setattr(extensions, "_imported", ["tall_tower", "/my games/corridor.py"])
    config = TrainConfig(game="mine/CorridorText-v0")
    (run / "config.yaml").write_text(dump_yaml(config.model_dump(mode="json")))
    imports = "--import tall_tower --import '/my games/corridor.py'"
    assert run_summary(run)[-1].startswith(f"score: ragen {imports} bench --agent ")


def test_the_kept_model_is_named_where_nothing_succeeds(run):
    """``best`` then holds the model with the most return."""
    from ragen_bench.training.run_summary import run_summary

    metrics = [
        {"iteration": i, "validation/success": 0.0, "validation/return": value}
        for i, value in enumerate((-1.0, -0.25, -0.5))
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(m) + "\n" for m in metrics))
    assert "best 0.0% (iteration 1)" in run_summary(run)[0]
    main(["report", str(run)])
    assert "0.0% after iteration 1" in (run / "report.html").read_text()


def test_evaluations_stay_on_the_screen(capsys):
    from ragen_bench.training.progress_view import TrainingView

    with TrainingView(TrainConfig(iterations=2)) as view:
        view.report(0, {"validation/success": 0.25, "validation/valid": 1.0})
        view.report(1, {"success": 0.5, "entropy": 0.1, "seconds/total": 2.0})
        view.report(2, {"success": 0.5, "validation/success": 0.5, "validation/valid": 0.9})
    assert capsys.readouterr().err.splitlines() == [
        "iteration 0: validation success 25.0%, valid replies 100.0%",
        "1/2 success 50.0%  entropy 0.1  2 s",
        "iteration 2: validation success 50.0%, valid replies 90.0%",
        "2/2 success 50.0%",
    ]


def test_a_model_and_an_entry_are_pushed_with_what_they_need(run, tmp_path, monkeypatch, capsys):
    calls = []

    class Hub:
        def create_repo(self, repo, **given):
            calls.append((repo, given["repo_type"], given["private"]))

        def upload_folder(self, repo_id, folder_path, repo_type):
            calls.append(sorted(path.name for path in folder_path.iterdir()))
            return f"hub/{repo_id}"

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    config = TrainConfig(model="hf:some/base")
    (run / "config.yaml").write_text(dump_yaml(config.model_dump(mode="json")))
    (run / "best").mkdir()
    (run / "best" / "config.json").write_text("{}")
    assert main(["push", str(run / "best"), "me/tiny", "--private"]) == 0
    assert capsys.readouterr().out.strip() == "hub/me/tiny"
    card = (run / "best" / "README.md").read_text()
    assert "| this model, iteration 5 | 50.0 [43.9, 56.1] |" in card
    assert "ragen bench --agent hf:me/tiny --game" in card
    assert "from transformers import" in card
    assert "on the game Sokoban by reinforcement learning with ragen-suite 0.3.0: 5 iterations" in card
    assert "\nbase_model: some/base\n---\n# tiny" in card
    assert "server" not in card
    (tmp_path / "entry.json").write_text("{}")
    assert main(["push", str(tmp_path), "me/entry"]) == 0
    assert calls[0] == ("me/tiny", "model", True)
    assert calls[1] == ["README.md", "config.json"]
    assert calls[2] == ("me/entry", "dataset", False)
    (run / "config.yaml").write_text(dump_yaml(TrainConfig(model="small-lake").model_dump(mode="json")))
    assert main(["push", str(run / "best"), "me/tiny"]) == 0
    assert "\nlicense: apache-2.0\n---\n" in (run / "best" / "README.md").read_text()
    (run / "environment.json").write_text('{"packages": {}}')  # played from a checkout
    assert main(["push", str(run / "best"), "me/tiny"]) == 0
    assert "with ragen-suite: 5 iterations" in (run / "best" / "README.md").read_text()
    assert main(["push", str(run), "me/tiny"]) == 2
    assert "neither a model folder nor a leaderboard entry" in capsys.readouterr().err


def test_a_card_of_the_users_own_stays_and_a_hub_that_is_away_is_one_line(run, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (run / "best").mkdir()
    (run / "best" / "config.json").write_text("{}")
    (run / "best" / "README.md").write_text("My card.")

    class Hub:
        def create_repo(self, repo, **given):
            pass

        def upload_folder(self, repo_id, folder_path, repo_type):
            raise HfHubHTTPError.__bases__[0]("no route to the hub")

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    assert main(["push", str(run / "best"), "me/tiny"]) == 2
    assert capsys.readouterr().err == "error: 'me/tiny': no route to the hub\n"
    assert (run / "best" / "README.md").read_text() == "My card."
