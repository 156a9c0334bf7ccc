"""Named settings: each only sets fields of the config."""

from typing import Any, Final

PRESETS: Final[dict[str, dict[str, Any]]] = {
    "starpo-ppo": {
        "advantage": {"estimator": "gae"},
        "loss": {"kl": "reward", "kl_estimator": "k1"},
    },
    "starpo-grpo": {
        "advantage": {"estimator": "grpo"},
        "loss": {"kl": "loss", "kl_estimator": "k2"},
    },
    "starpo-s": {
        "advantage": {"estimator": "gae"},
        "filter": {"kind": "std", "ratio": 0.25},
        "loss": {"clip_ratio_high": 0.28},
    },
    "starpo-s-grpo": {
        "advantage": {"estimator": "grpo"},
        "filter": {"kind": "std", "ratio": 0.25},
        "loss": {"clip_ratio_high": 0.28},
    },
}
"""The paper's methods (sections 3 and 4.2)."""

SCALES: Final[dict[str, dict[str, Any]]] = {
    "laptop": {
        "model": "starter",
        # Small passes stay in a processor's cache and are padded less.
        "update": {
            "learning_rate": 3e-4,
            "critic_learning_rate": 1e-3,
            "max_tokens_per_micro_batch": 3072,
        },
    },
    "paper": {
        "model": "hf:Qwen/Qwen2.5-0.5B-Instruct",
        "rollout": {"max_tokens": 256},
        "update": {"precision": "bfloat16"},
    },
}
"""Model and learning rates: a starter model on a CPU, or the paper's."""
