"""``ragen push``: share a trained model or a leaderboard entry on a hub."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ragen_envs.errors import RagenError


def push(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="RUN/best of ragen train, or a leaderboard entry."),
    ],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Repository, such as me/my-model.")],
    private: Annotated[bool, typer.Option("--private", help="Hide a new repository.")] = False,
) -> None:
    """Upload a model with a model card, or an entry as a data set, through huggingface_hub."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if not ((is_entry := (folder / "entry.json").exists()) or (folder / "config.json").exists()):
        raise RagenError(f"'{folder}' is neither a model folder nor a leaderboard entry")
    if not is_entry:
        (folder / "README.md").write_text("\n".join(_card(folder, repo)) + "\n", "utf-8")
    kind, api = ("dataset" if is_entry else "model"), HfApi()
    try:
        api.create_repo(repo, repo_type=kind, private=private, exist_ok=True)
        print(api.upload_folder(repo_id=repo, folder_path=folder, repo_type=kind))
    except (HfHubHTTPError, HFValidationError) as error:
        raise RagenError(f"'{repo}': {error}") from error


def _card(folder: Path, repo: str) -> Iterator[str]:
    """Yield the lines of the card of a run's best model."""
    from ragen_agents.run_files.records import read_metrics
    from ragen_agents.run_files.yaml_files import dump_yaml
    from ragen_agents.starpo.run.run_directory import load_train_config
    from ragen_bench.stats.intervals import wilson
    from ragen_bench.training.run_summary import scoring_command

    run = folder.absolute().parent
    config = load_train_config(run)
    yield "---\nlibrary_name: transformers\npipeline_tag: text-generation"
    yield "tags: [ragen, reinforcement-learning]\n---"
    yield f"# {repo.rpartition('/')[2]}\n"
    yield f"Trained on {config.game} from {config.model} with ragen-suite ({config.advantage.estimator}).\n"
    scored = [line for line in read_metrics(run) if "validation/success" in line]
    if scored:
        levels = config.evaluation.episodes
        best = max(scored, key=lambda line: line["validation/success"])
        yield f"| {levels} validation levels | success, % [95% interval] |\n|---|--:|"
        for name, line in (("first", scored[0]), ("this model", best)):
            rate = wilson(round(line["validation/success"] * levels), levels)
            shown, low, high = (100 * each for each in (rate.estimate, rate.low, rate.high))
            yield f"| {name}, iteration {line['iteration']} | {shown:.1f} [{low:.1f}, {high:.1f}] |"
        yield "\nThis model is the best of the run on these levels, so score it on test levels:\n"
    yield from (
        f"    {line.removeprefix('score: ')}" for line in scoring_command(f"hf:{repo}", config)
    )
    yield "\n```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n"
    yield f'model = AutoModelForCausalLM.from_pretrained("{repo}")'
    yield f'tokenizer = AutoTokenizer.from_pretrained("{repo}")\n```\n\n## Settings\n'
    yield f"```yaml\n{dump_yaml(config.model_dump(mode='json'))}```"
