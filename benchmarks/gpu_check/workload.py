"""The paper's settings on random weights: the model, the run's config, and trajectories made up of tokens."""

from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from ragen_agents.rollout.trajectory import Trajectory, TrajectoryTurn
from ragen_agents.starpo import PRESETS, SCALES, TrainConfig, merged
from ragen_agents.starpo.config import Filter
from ragen_agents.starpo.memory.training_memory import Conversations
from ragen_agents.starter import STARTER
from ragen_envs.conversation import EndReason

PAPER: Final = "qwen2.5-0.5b"
TINY: Final = "tiny"
SHAPES: Final[dict[str, dict[str, int]]] = {
    PAPER: {
        "vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2,
    },
    TINY: {
        "vocab_size": 4096, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1,
    },
}  # fmt: skip
"""494 million weights, and few."""
TINY_RUN: Final[dict[str, Any]] = {
    "rollout": {"prompts_per_iteration": 2, "group_size": 2, "max_tokens": 4},
    "update": {"mini_batch_size": 4},
}
"""Settings with which an iteration takes seconds on a CPU."""
TINY_LENGTHS: Final = Conversations(24, 72)
"""Lengths of trajectories of which a pass takes seconds on a CPU."""


def model_config(shape: str, **changes: int) -> Qwen2Config:
    """Return the config of a model with the starter's tokenizer and an embedding as large as Qwen's."""
    tokenizer = AutoTokenizer.from_pretrained(STARTER)
    sizes: dict[str, Any] = SHAPES[shape] | changes
    return Qwen2Config(
        **sizes, max_position_embeddings=32_768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip


def random_model(config: Qwen2Config, device: torch.device) -> Any:
    """Return a model with random weights in float32, made on its device."""
    torch.manual_seed(0)
    with device:
        return Qwen2ForCausalLM(config).eval()


def model_folder(folder: Path, shape: str) -> Path:
    """Return a folder with random weights in bfloat16, made if it is missing."""
    if not (folder / "tokenizer.json").exists():  # which is written last
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        random_model(model_config(shape), device).bfloat16().save_pretrained(folder)
        AutoTokenizer.from_pretrained(STARTER).save_pretrained(folder)
    return folder


def paper_settings(preset: str, *layers: dict[str, Any]) -> TrainConfig:
    """Return the paper's settings with those of a preset and of further layers.

    Random weights get the same return for all replies, which the filter of StarPO-S would drop; a random
    share of the same size takes its place. Nothing is evaluated, measured or saved.
    """
    quiet = {
        "evaluation": {"every": 0}, "monitor": {"information_every": 0}, "save_every": 10_000,
    }  # fmt: skip
    config = TrainConfig(**merged(SCALES["paper"], PRESETS[preset], quiet, *layers))
    if config.filter.kind != "std":
        return config
    return config.model_copy(update={"filter": Filter(kind="random", ratio=config.filter.ratio)})


def made_up(
    groups: int, members: int, lengths: Conversations, turns: int, vocabulary: int, seed: int = 0
) -> list[Trajectory]:
    """Return trajectories of random tokens whose members share the first prompt.

    Args:
        groups: How many groups.
        members: Trajectories of each.
        lengths: Tokens of the first prompt and of a whole trajectory.
        turns: Replies of a trajectory.
        vocabulary: Tokens are drawn from it.
        seed: Of tokens and rewards.
    """
    rng = torch.Generator().manual_seed(seed)

    def tokens(count: int) -> list[int]:
        drawn: list[int] = torch.randint(vocabulary, (count,), generator=rng).tolist()
        return drawn

    after = lengths.whole - lengths.prompt
    feedback = after // (4 * turns)
    reply = (after - feedback * (turns - 1)) // turns
    found = []
    for group in range(groups):
        prompt = tokens(lengths.prompt)
        for member in range(members):
            one = Trajectory(group, member, list(prompt), end=EndReason.TRUNCATED)
            for turn in range(turns):
                if turn:
                    one.append_context(tokens(feedback))
                one.append_reply(tokens(reply), [-12.0] * reply)
                reward = float(torch.rand((), generator=rng))
                one.turns.append(TrajectoryTurn("", {"game": reward}, True, True, 1, True))
            found.append(one)
    return found
