"""Games that are controls of others: the same prompts, the opposite answers."""

from collections.abc import Mapping

from ragen_bench.config.suites import Task
from ragen_envs.registration import spec_of


def controls_of(tasks: Mapping[str, Task]) -> dict[str, str]:
    """Return the tasks whose games are controls, each with the name of the game that it controls."""
    controls = {}
    for name, task in tasks.items():
        spec = spec_of(task.env)
        if spec is not None and spec.control_of is not None:
            controls[name] = spec.control_of
    return controls


def control_notes(tasks: Mapping[str, Task]) -> list[str]:
    """Return a note for each game that has controls among the tasks."""
    controls = controls_of(tasks)
    named = {
        game: [task for task, controlled in controls.items() if controlled == game]
        for game in dict.fromkeys(controls.values())
    }
    return [
        f"{' and '.join(names)}: the prompts are those of {game}, but the opposite answers are "
        "right; averages over games leave them out"
        for game, names in named.items()
    ]
