"""Notes on what was wrong with what agents bought in WebShop."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ragen_agents.rollout import Episode
from ragen_bench.evaluation.run_table import Run
from ragen_envs.games.webshop.text import OUTCOME
from ragen_envs.registration import spec_of

NOTHING: Final = "nothing bought"


def purchase_notes(run: Run) -> list[str]:
    """Return a note for each agent that bought something wrong, or nothing, on a task of WebShop."""
    shops = [name for name, task in run.config.suite.tasks.items() if _is_shop(task.env)]
    return [note for task in shops for note in _of_task(run, task)]


def _is_shop(env_id: str) -> bool:
    spec = spec_of(env_id)
    return spec is not None and spec.module == "ragen_envs.games.webshop"


def _of_task(run: Run, task: str) -> Iterator[str]:
    for (agent, played), sample in run.samples.items():
        if played != task:
            continue
        causes = Counter(cause for episode in sample.values() for cause in wrong_with(episode))
        if causes:
            shares = ", ".join(
                f"{cause} {100 * count / len(sample):.0f}%" for cause, count in causes.most_common()
            )
            yield f"what {agent} got wrong on {task}, in % of the episodes: {shares}"


def wrong_with(episode: Episode) -> tuple[str, ...]:
    """Return what was wrong with the purchase of an episode, by the text that closed it."""
    found = re.search(OUTCOME, episode.closing)
    if found is None:
        return (NOTHING,)
    return tuple(found[1].split(", ")) if found[1] else ()
