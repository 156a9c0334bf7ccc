"""Checkpoints: a model folder, and beside it everything that a run needs to resume as if never stopped.

Random numbers need no state: every draw of a run derives from its seed and the iteration.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from ragen_agents.engines.device import is_out_of_memory
from ragen_agents.engines.weights import named_weights
from ragen_agents.model_files.folders import save_tokenizer
from ragen_agents.run_files.files import new_folder, remove_unfinished
from ragen_agents.starpo.processes import together
from ragen_agents.starpo.update.adapters import has_adapters
from ragen_agents.starpo.update.learner import Learner
from ragen_agents.starpo.update.sharding import part_like, whole
from ragen_envs.errors import RagenError, first_line

STATE: Final = "trainer.json"
TENSORS: Final = "trainer.safetensors"


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    iteration: int = 0
    """Iterations that are done."""
    metrics_size: int = 0
    """Bytes of ``metrics.jsonl`` at that point."""
    samples_size: int = 0
    """Bytes of ``samples.jsonl`` at that point."""
    best: float | None = None
    """Validation success of the best checkpoint, in [0, 1]."""
    best_return: float = 0.0
    """Validation return of the best checkpoint, which decides as long as nothing succeeds."""
    empty: int = 0
    """Iterations in a row that had nothing to learn from, though not every episode succeeded."""
    healthy: int | None = None
    """Iterations of the last checkpoint in which the monitor saw nothing wrong."""
    rolled_back: int | None = None
    """Iteration after which the run went back to that checkpoint's weights."""
    collapsed: bool = False
    """Whether the monitor has ended the run."""
    pending: dict[str, Any] | None = None
    """Metrics of the last iteration while it has not been evaluated and written down."""


def save(
    folder: Path, learner: Learner, tokenizer: Any, progress: Progress, model_only: bool = False
) -> None:
    """Write a checkpoint; the folder appears whole or not at all.

    All processes of a run call this, and return when the first one has written. With ``model_only`` nothing
    can be resumed from the folder, and its files, by which an agent is known, depend on the weights only.

    Raises:
        RagenError: It cannot be written, for example because the disk is full; raised in every process.
        MemoryRanOutError: Memory ran out in the first of several processes; raised in every process.
    """
    first = learner.accelerator.is_main_process
    policy, tensors = learner.whole_policy(), None if model_only else _tensors(learner, first)
    state = {**asdict(progress), "bad_steps": learner.bad_steps}

    def write() -> None:
        if not first:
            return
        try:
            with new_folder(folder) as work:
                _save_model(policy, work)
                save_tokenizer(tokenizer, work)
                if tensors is not None:
                    save_file(tensors, work / TENSORS)
                    (work / STATE).write_text(json.dumps(state) + "\n", encoding="utf-8")
        except (OSError, SafetensorError) as error:
            raise RagenError(
                f"the checkpoint '{folder}' cannot be written: {first_line(error)}; earlier ones are kept, "
                "and the same command resumes the run"
            ) from error

    together(write, learner.accelerator)


def _save_model(policy: Any, folder: Path) -> None:
    """Write a model, its adapters merged on the way to the processor's memory."""
    if not has_adapters(policy):
        policy.save_pretrained(folder)
        return
    base = policy.get_base_model()
    merged = {name: tensor.cpu() for name, tensor in named_weights(policy)}
    if base.config.get_text_config().tie_word_embeddings:
        head = base.get_output_embeddings()
        merged.pop(next(n for n, module in base.named_modules() if module is head) + ".weight")
    base.save_pretrained(folder, state_dict=merged)


def load(folder: Path, learner: Learner) -> Progress:
    """Bring models and optimizers to a checkpoint's state.

    Raises:
        RagenError: The folder is not a checkpoint of such a run.
        RuntimeError: Memory ran out; see `is_out_of_memory`.
    """
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        tensors = load_file(folder / TENSORS)
        learner.bad_steps = int(state.pop("bad_steps"))
        progress = Progress(**state)
        if has_adapters(learner.models.policy):
            policy = _under(tensors, "policy")
        else:
            saved = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", trust_remote_code=False)
            policy = dict(saved.named_parameters())
        _load_weights(learner.models.named_policy(), policy)
        _load_weights(learner.models.named_critic(), tensors)
        for name, optimizer in learner.optimizers.items():
            _load_optimizer(optimizer, _under(tensors, name))
    except (
        OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError,
    ) as error:  # fmt: skip
        if is_out_of_memory(error):
            raise
        raise RagenError(
            f"the checkpoint '{folder}' cannot be loaded: {first_line(error)}; if it is damaged, "
            "remove it, and the same command resumes from the one before it, if there is one"
        ) from error
    return progress


def latest(folder: Path) -> Path | None:
    """Return the last complete checkpoint of a run's ``checkpoints`` folder."""
    checkpoints = complete(folder)
    return checkpoints[-1] if checkpoints else None


def complete(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a run's ``checkpoints`` folder, the oldest first."""
    return [path for path in _numbered(folder) if (path / STATE).exists()]


def _numbered(folder: Path) -> list[Path]:
    """Return the folders that a run has made, the oldest first; a copy under another name is the user's."""
    return sorted(path for path in folder.glob("[0-9]*") if path.name.isdecimal())


def path_of(folder: Path, iteration: int) -> Path:
    """Return the path of an iteration's checkpoint in a run's ``checkpoints`` folder."""
    return folder / f"{iteration:06d}"


def prune(folder: Path, keep: int, healthy: int | None) -> None:
    """Remove all but the last ``keep`` checkpoints and the last healthy one, and what a killed run left."""
    spared = None if healthy is None else path_of(folder, healthy)
    remove_unfinished(folder)
    numbered = _numbered(folder)
    for path in numbered[:-keep]:
        if path != spared:
            shutil.rmtree(path, ignore_errors=True)


def _tensors(learner: Learner, keep: bool) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint besides the policy; nothing where only others keep them."""
    tensors: dict[str, Tensor] = {}
    if has_adapters(learner.models.policy):
        tensors |= {f"policy.{n}": p for n, p in learner.models.named_policy().items()}
    tensors |= learner.models.named_critic()
    for name, optimizer in learner.optimizers.items():
        for key, fields in optimizer.state_dict()["state"].items():
            tensors |= {f"{name}.{key}.{field}": value for field, value in fields.items()}
    copies = {}
    for name, tensor in tensors.items():
        complete = whole(tensor.detach())
        if keep:
            copies[name] = complete.cpu().contiguous()
    return copies


def _load_weights(named: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    if absent := named.keys() - tensors.keys():
        raise KeyError(f"it lacks the weights {', '.join(sorted(absent))}")
    for name, parameter in named.items():
        parameter.data.copy_(part_like(tensors[name].data, parameter))


def _load_optimizer(optimizer: Any, tensors: dict[str, Tensor]) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        key, field = name.split(".")
        like = tensor if field == "step" else parameters[int(key)]
        state.setdefault(int(key), {})[field] = part_like(tensor, like)
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    start = prefix + "."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
