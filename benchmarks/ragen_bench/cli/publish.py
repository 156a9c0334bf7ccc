"""``ragen push``, ``submit`` and ``leaderboard``: share models and results."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragen_bench.cli.options import BackendOption, EntriesOption
from ragen_envs.errors import RagenError

if TYPE_CHECKING:
    from ragen_bench.leaderboard.store import StoredEntry

leaderboard_app = typer.Typer(
    name="leaderboard",
    help="Check the published entries and build the leaderboard site.",
    no_args_is_help=True,
)
_SITE = Path("runs/leaderboard")
_RESULTS = Path("benchmarks/results")


@leaderboard_app.command()
def check(
    entry: Annotated[
        list[Path] | None, typer.Argument(metavar="ENTRY", help="Folders of entries.", show_default="all")
    ] = None,
    entries: EntriesOption = Path("leaderboards"),
    backend: BackendOption = "local",
) -> None:
    """Replay entries and recompute all their numbers; exit 1 if any entry is rejected."""
    from ragen_bench.console.escaping import escape_unprintable
    from ragen_bench.console.formats import percent
    from ragen_bench.console.progress import bar
    from ragen_bench.leaderboard.check import check_copies, check_entry
    from ragen_bench.leaderboard.entry import EntryError, check_titles
    from ragen_bench.leaderboard.store import entry_folders
    from ragen_bench.verification.run_verification import replayer

    replay_all = replayer(backend)
    rejected = False
    checked: list[StoredEntry] = []
    for folder in entry or entry_folders(entries):
        try:
            stored = check_entry(folder, bar(f"checking {folder.name}"), replay_all)
        except Exception as error:  # entries are untrusted, and each is to be heard of
            rejected = True
            what = str(error) if isinstance(error, EntryError) else f"{type(error).__name__}: {error}"
            print(escape_unprintable(f"REJECTED {folder}: {what}"), file=sys.stderr)
        else:
            checked.append(stored)
            counts = f"{len(stored.records)} episodes of {len(stored.entry.results)} games"
            print(f"OK {folder}: {counts} replayed")
            solved = (f"{game} {percent(result.success)}" for game, result in stored.entry.results.items())
            print(f"   success, %: {', '.join(solved)}")
    about_all = (partial(check_titles, [each.entry for each in checked]), partial(check_copies, checked))
    for check_all in about_all:
        try:
            check_all()
        except EntryError as error:
            rejected = True
            print(escape_unprintable(f"REJECTED {error}"), file=sys.stderr)
    if rejected:
        raise typer.Exit(1)


@leaderboard_app.command()
def schema() -> None:
    """Print the JSON Schema of an entry."""
    from ragen_bench.leaderboard.entry import entry_schema

    print(entry_schema(), end="")


@leaderboard_app.command()
def build(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the site.")] = _SITE,
    entries: EntriesOption = Path("leaderboards"),
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of stored sweep results.", show_default=str(_RESULTS)),
    ] = None,
) -> None:
    """Check all entries and write a static site that needs no server and makes no requests."""
    from ragen_bench.console.progress import bar
    from ragen_bench.leaderboard.site import build_site

    if results is not None and not results.is_dir():
        raise RagenError(f"--results is '{results}', but there is no such folder")
    build_site(entries, results or _RESULTS, out, bar("building"))
    print(out / "index.html")


@leaderboard_app.command()
def serve(
    site: Annotated[Path, typer.Argument(metavar="DIR", help="A built site.")] = _SITE,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Serve a built site on localhost, until Ctrl-C."""
    from ragen_bench.viewer.templates import serve_folder

    if not (site / "index.html").is_file():
        raise RagenError(f"'{site}' holds no site; run ragen leaderboard build first")
    serve_folder(site, port)


def submit(
    run: Annotated[str, typer.Argument(metavar="RUN", help="RUN or RUN:AGENT.")],
    about: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="YAML: name, title, model, authors, description, contamination, trained_on, links.",
            show_default="that of the entry with the agent's name",
        ),
    ] = None,
    training: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Training run of the agent, for its curves.",
            show_default="those of the existing entry",
        ),
    ] = None,
    entries: EntriesOption = Path("leaderboards"),
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing entry without asking.")
    ] = False,
) -> None:
    """Turn an agent's run into a leaderboard entry and check it as ragen leaderboard check does."""
    from ragen_bench.console.progress import bar
    from ragen_bench.evaluation.comparison import read_side
    from ragen_bench.leaderboard.submission import read_description, read_training, submit

    side = read_side(run)
    words = read_description(about, entries, side.agent)
    curves = read_training(training, entries, words.name)
    if (entries / words.name).exists() and not replace:
        if not sys.stdin.isatty():
            raise RagenError(f"'{entries / words.name}' already exists; --replace replaces it")
        if not typer.confirm(f"Replace '{entries / words.name}'?"):
            raise RagenError("nothing was replaced")
    folder = submit(side, words, curves, entries, bar(f"checking {words.name}"))
    print(folder)
    print(f"see it with: ragen leaderboard build --entries {entries}\n"
          f"publish it with a pull request that adds {folder}", file=sys.stderr)  # fmt: skip


def push(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="RUN/best of ragen train, or a leaderboard entry.")
    ],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Repository, such as me/my-model.")],
    private: Annotated[bool, typer.Option("--private", help="Hide a new repository.")] = False,
) -> None:
    """Upload a model with a model card, or an entry as a data set, through huggingface_hub."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if not ((is_entry := (folder / "entry.json").exists()) or (folder / "config.json").exists()):
        raise RagenError(f"'{folder}' is neither a model folder nor a leaderboard entry")
    card = None if is_entry else _card(folder, repo)
    kind, api, readme = ("dataset" if is_entry else "model"), HfApi(), folder / "README.md"
    try:
        api.create_repo(repo, repo_type=kind, private=private, exist_ok=True)
        if card and (not readme.exists() or _TAGS in readme.read_text("utf-8")):  # not one of the user's
            readme.write_text(card, "utf-8")
        print(api.upload_folder(repo_id=repo, folder_path=folder, repo_type=kind))
    # The bases are the errors of the connection, whose library differs between versions.
    except (*HfHubHTTPError.__bases__, HFValidationError) as error:  # type: ignore[misc]
        raise RagenError(f"'{repo}': {error}") from error


_TAGS: Final = "tags: [ragen, reinforcement-learning]"
"""A line of the cards that are made here."""


def _card(folder: Path, repo: str) -> str:
    """Return the card of a run's best model, without paths of this computer or the address of a server."""
    import jinja2

    from ragen_agents.run_files import ENVIRONMENT
    from ragen_agents.run_files.records import read_metrics
    from ragen_agents.run_files.yaml_files import dump_yaml
    from ragen_agents.starpo.run.run_directory import load_train_config
    from ragen_agents.starter import STARTERS
    from ragen_bench.console.formats import percent_interval
    from ragen_bench.stats.intervals import wilson
    from ragen_bench.training.run_summary import best_evaluation, scoring_command, short_name

    run = folder.absolute().parent
    config, metrics = load_train_config(run), read_metrics(run)
    start = Path(config.model).name if Path(config.model).is_absolute() else config.model
    settings = config.model_copy(update={"model": start}).model_dump(mode="json", exclude={"server"})
    scored, levels = [line for line in metrics if "validation/success" in line], config.evaluation.episodes
    first = "initial model" if scored and scored[0]["iteration"] == 0 else "first"
    shown = [(first, scored[0]), ("this model", best_evaluation(scored))] if scored else []
    rates = [
        (
            name,
            line["iteration"],
            percent_interval(*wilson(round(line["validation/success"] * levels), levels)),
        )
        for name, line in shown
    ]
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("ragen_bench"), trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    return templates.get_template("model_card.md.j2").render(
        config=config, settings=settings, yaml=dump_yaml(settings), repo=repo, rates=rates,
        game=short_name(config.game), is_starter=config.model in STARTERS,
        iterations=metrics[-1]["iteration"],
        version=json.loads((run / ENVIRONMENT).read_text("utf-8"))["packages"].get("ragen-suite"),
        commands=scoring_command(f"hf:{repo}", config),
    )  # fmt: skip
