"""A small leaderboard: entries of the project's own, made to look like those of others."""

from entries import as_model, change, copy_of, read, write

PAYLOAD = (
    "</script><script>window.harmed=1</script><img src=x onerror=window.harmed=1>"
    "<a href='javascript:window.harmed=1'>\u202e\x1b[2J"
)


def prompt(folder, **settings):
    """Let an entry have been played under other settings of the prompt."""

    def settle(entry):
        for task in entry["config"]["suite"]["tasks"].values():
            task["settings"] = settings

    change(folder, settle)
    write(folder, [{**episode, "env_kwargs": settings} for episode in read(folder)])


def make_entries(root, copy=copy_of):
    """Make two controls, a rogue that plays like chance, its twin, and a hero that plays like the oracle.

    ``copy`` copies a published entry, or the beginning of one.
    """
    for name, source, reply in (
        ("rogue", "random", PAYLOAD), ("twin", "random", "wise"), ("hero", "oracle", "sure"),
    ):  # fmt: skip
        as_model(copy(source, root), name, reply)
    change(root / "hero", lambda entry: entry["about"].update(trained_on=["Sokoban"]))
    change(root / "hero", lambda e: e["config"]["suite"]["sampling"].update(max_tokens=100))
    prompt(root / "hero", think_prefix=True)
    for name in ("random", "oracle"):
        copy(name, root)
    return root
