"""The table of memory plans in docs/engines.md: which models train on which GPU."""

from typing import Any, Final

from transformers import Qwen2Config

from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_agents.starpo.memory.fitting import fitted
from ragen_agents.starpo.memory.planning import Sizes
from ragen_agents.starpo.memory.training_memory import GIB, Device
from ragen_agents.starpo.setup import env_factory

_GPUS: Final = (24, 48, 80, 141)
"""GiB of memory."""
_COMMON: Final = {
    "num_key_value_heads": 2,
    "max_position_embeddings": 32_768,
    "vocab_size": 151_936,
}
MODELS: Final[dict[str, Qwen2Config]] = {
    "Qwen2.5-0.5B": Qwen2Config(
        hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        tie_word_embeddings=True, **_COMMON,
    ),
    "Qwen2.5-1.5B": Qwen2Config(
        hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12,
        tie_word_embeddings=True, **_COMMON,
    ),
    "Qwen2.5-3B": Qwen2Config(
        hidden_size=2048, intermediate_size=11_008, num_hidden_layers=36, num_attention_heads=16,
        tie_word_embeddings=True, **_COMMON,
    ),
    "Qwen2.5-7B": Qwen2Config(
        hidden_size=3584, intermediate_size=18_944, num_hidden_layers=28, num_attention_heads=28,
        tie_word_embeddings=False, **{**_COMMON, "num_key_value_heads": 4, "vocab_size": 152_064},
    ),
}  # fmt: skip
"""Their shapes; no weights are needed."""
_LORA: Final = {"lora": {"rank": 64, "alpha": 64}}
_WAYS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("StarPO-S, all weights", "starpo-s", {}),
    ("StarPO-S without a critic, all weights", "starpo-s-grpo", {}),
    ("StarPO-S, LoRA of rank 64", "starpo-s", _LORA),
)


def plans_table() -> str:
    """Return the table as Markdown."""
    sizes = [f"{gib} GiB" for gib in _GPUS]
    lines = [f"| | | {' | '.join(sizes)} |", f"|---|---|{'--:|' * len(_GPUS)}"]
    for name, model in MODELS.items():
        planned = None
        for way, preset, more in _WAYS:
            config = TrainConfig(
                **merged(
                    SCALES["paper"], PRESETS[preset], more,
                    {"game": "ragen/SokobanText-v0", "engine": "vllm"},
                )
            )  # fmt: skip
            planned = planned or Sizes(config, env_factory(config, None), model=model)
            cells = [_cell(config, planned, gib) for gib in _GPUS]
            lines.append(f"| {name} | {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(config: TrainConfig, sizes: Sizes, gib: int) -> str:
    planner = sizes.on(Device(gib * GIB, True))
    found = fitted(config, planner)
    plan = planner(found)
    if plan.fits:
        return f"{found.update.micro_batch_tokens:,}{' †' if found.update.recomputes else ''}"
    return f"no: {plan.least[plan.worst] / GIB:.0f} GiB"
