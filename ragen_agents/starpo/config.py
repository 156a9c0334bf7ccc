"""The settings of a training run. Each field documents its effect and the source of its default."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from ragen_agents.engines.vllm.api import check_extra
from ragen_agents.starpo.math.losses import KlEstimator
from ragen_agents.starpo.parts.aggregations import AGGREGATIONS
from ragen_agents.starpo.parts.estimators import ESTIMATORS
from ragen_agents.starpo.parts.filters import FILTERS
from ragen_agents.starpo.parts.policy_losses import POLICY_LOSSES
from ragen_agents.starpo.parts.registry import Part, Registry
from ragen_envs.errors import RagenError
from ragen_envs.game.text import FORMATS, IMAGE
from ragen_envs.levels.splits import TRAIN

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Unit = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Amount = Annotated[float, Field(ge=0)]
Above = Annotated[float, Field(gt=0)]
Params = dict[str, float]
MOST_TOKENS = 16384
"""Tokens of a forward pass by default on a CPU."""


def _names(registry: Registry[Any]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": list(registry.names)})


EstimatorName = Annotated[str, AfterValidator(ESTIMATORS.check), _names(ESTIMATORS)]
FilterName = Annotated[str, AfterValidator(FILTERS.check), _names(FILTERS)]
PolicyLossName = Annotated[str, AfterValidator(POLICY_LOSSES.check), _names(POLICY_LOSSES)]
AggregationName = Annotated[str, AfterValidator(AGGREGATIONS.check), _names(AGGREGATIONS)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Rollout(_Section):
    """Collection of trajectories."""

    prompts_per_iteration: Positive = 8
    """Initial states of an iteration, one group each (P in the paper: 8)."""
    group_size: Positive = 16
    """Episodes that start from each initial state (N in the paper: 16)."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Sampling temperature, also of the losses (paper: 1)."""
    max_tokens: Positive = 200
    """Maximum number of tokens in a reply."""


class Vllm(_Section):
    """Settings of vLLM if ``engine`` is vllm."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the rollouts; auto: float32 on a CPU, bfloat16 on a GPU."""
    max_model_len: Annotated[int, Field(ge=128)] | None = None
    """Maximum tokens of a conversation, also with engine=vllm-server; a longer one ends with ``overflow``.
    By default estimated from the game, within the model's context."""
    cache_gib: Above | None = None
    """Size of the KV cache in GiB. By default what all episodes need, within the free memory; a smaller
    one is slower."""
    gpu_memory_utilization: Share | None = None
    """Share of the GPU's memory for vLLM. By default what it needs."""
    extra: Annotated[dict[str, Any], AfterValidator(check_extra)] = Field(default_factory=dict)
    """More arguments of vLLM's engine, such as ``enforce_eager: true``; see docs/engines.md."""


class Server(_Section):
    """Addresses of the servers if ``engine`` is vllm-server. Nothing here affects results."""

    url: str | Annotated[list[str], Field(min_length=1)] = "http://127.0.0.1:8000"
    """Root URL of the server, or a list of several, which share the episodes."""
    folder: str | None = None
    """Folder for new weights, by default the run directory. Trainer and servers must see it under the same
    path, and no other run may use it."""
    timeout: Annotated[float, Field(gt=0)] = 300.0
    """Timeout of one request, in seconds."""
    outage_timeout: Amount = 300.0
    """Seconds without an answer after which the run saves its state and stops."""

    @property
    def urls(self) -> list[str]:
        """The root URLs of all servers."""
        return [self.url] if isinstance(self.url, str) else self.url


class Filter(_Section):
    """Groups used for training."""

    kind: FilterName = "none"
    """Name of a registered filter."""
    ratio: Share = 0.25
    """Share to keep, of what the filter measures (paper: 0.25 of the groups)."""
    refill: Annotated[int, Field(ge=0)] = 0
    """How often, at most, fresh levels replace groups of equal returns before the filter chooses (DAPO's
    dynamic sampling, arXiv 2503.14476)."""
    params: Params = Field(default_factory=dict)
    """Settings that the filter was registered with."""

    @property
    def reads_returns(self) -> bool:
        """Whether which groups are used depends on their returns."""
        return self.refill > 0 or self.kind not in ("none", "random")


class Advantage(_Section):
    """Estimation of advantages from returns."""

    estimator: EstimatorName = "gae"
    """Name of a registered estimator."""
    gamma: Unit = 1.0
    """Discount per action token (paper: 1)."""
    lam: Unit = 1.0
    """Lambda per action token (paper: 1)."""
    turn_gamma: Unit = 0.95
    """Discount per turn, for turn-gae, bilevel-gae and gigpo (code of RAGEN and GiGPO: 0.95)."""
    turn_lam: Unit = 1.0
    """Lambda per turn, for turn-gae and bilevel-gae."""
    whiten: bool = True
    """Whether a critic's advantages are whitened over the kept action tokens."""
    params: Params = Field(default_factory=dict)
    """Settings that the estimator was registered with."""


class Loss(_Section):
    """Loss that is minimised."""

    policy_loss: PolicyLossName = "ppo-clip"
    """Name of a registered policy loss."""
    clip_ratio_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Lower clip: the ratio is at least 1 - this (paper: 0.2)."""
    clip_ratio_high: Annotated[float, Field(gt=0)] = 0.2
    """Upper clip: the ratio is at most 1 + this (paper: 0.2; StarPO-S: 0.28)."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound of the loss for negative advantages; verl uses 3, the paper none."""
    entropy_coef: Amount = 0.001
    """Coefficient of the entropy bonus (paper: 0.001)."""
    kl: Literal["none", "reward", "loss"] = "none"
    """Place where the divergence from the initial policy is applied (paper: reward; StarPO-S: none)."""
    kl_coef: Amount = 0.001
    """Coefficient of the divergence (paper: 0.001)."""
    kl_estimator: KlEstimator = "k1"
    """Estimator of the divergence: k1 in the reward (paper), k2 or k3 in the loss."""
    agg_mode: AggregationName = "token-mean"
    """Name of a registered aggregation of the losses over tokens."""
    cliprange_value: Amount | None = None
    """Maximum distance of values from the old ones; no limit by default."""
    tis_cap: Annotated[float, Field(ge=1)] | None = 2.0
    """Cap of the importance weights between engine and trainer; null switches them off."""
    mis_bounds: tuple[Above, Above] | None = None
    """Bounds of the ratio of trainer to engine; tokens outside are left out (masked importance sampling).
    No bounds by default."""
    params: Params = Field(default_factory=dict)
    """Settings that the policy loss was registered with."""


class Update(_Section):
    """Update of the weights."""

    mini_batch_size: Positive = 32
    """Trajectories per optimizer step (E in the paper: 32)."""
    steps: Literal["as-published", "equal"] = "as-published"
    """as-published: one step per mini-batch of kept trajectories. equal: as many steps as without a filter,
    each on fewer trajectories."""
    epochs: Positive = 1
    """Passes over the kept trajectories, online-k (paper: 1)."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-6
    """Learning rate of the policy (RAGEN's code: 1e-6)."""
    critic_learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    """Learning rate of the critic (RAGEN's code: 1e-5)."""
    lr_scheduler_type: Literal["constant", "linear", "cosine"] = "constant"
    """Schedule of both learning rates after warm-up: constant, or linear or cosine decay to 0."""
    warmup_iterations: Annotated[int, Field(ge=0)] = 0
    """Iterations in which both learning rates rise from 0."""
    weight_decay: Amount = 0.0
    """Weight decay (AdamW) of policy and critic, without biases and norms."""
    critic_warmup: Annotated[int, Field(ge=0)] = 0
    """Iterations at the start in which only the critic learns."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Adam's betas (paper: 0.9, 0.999)."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Maximum norm of the gradients, clipped separately for policy and critic."""
    max_tokens_per_micro_batch: Positive | None = None
    """Maximum tokens of a forward pass, with padding; affects memory and speed only. By default 16384, or
    on a GPU what the memory plan allows (docs/engines.md)."""
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    """Whether layers are recomputed in the backward pass; affects memory and speed only. auto: if the
    memory plan needs it (docs/engines.md)."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the trainer's passes and of rollouts with engine=transformers (autocast). With
    bfloat16, trained weights stay in float32, and frozen ones (below adapters, of the reference model)
    are stored in bfloat16."""
    float32_head: bool | None = None
    """Whether the output head computes in float32 although the precision is bfloat16. By default false on
    a GPU, which sums bfloat16 products in float32, and on a CPU true if several optimizer steps share the
    log-probabilities of one rollout."""

    @property
    def recomputes(self) -> bool:
        """Whether layers are recomputed; "auto" is no where no plan has decided."""
        return self.gradient_checkpointing is True

    @property
    def micro_batch_tokens(self) -> int:
        """``max_tokens_per_micro_batch``, or its default where no plan has set it."""
        return self.max_tokens_per_micro_batch or MOST_TOKENS


class Critic(_Section):
    """The value model, for estimators that need one."""

    kind: Literal["separate", "shared"] = "separate"
    """A separate model that starts as the policy's trunk, or a head on the policy's trunk."""
    vf_coef: Amount = 0.5
    """Weight of the value loss if the trunk is shared."""


class Lora(_Section):
    """Low-rank adapters on all linear layers instead of all weights (paper, appendix D)."""

    rank: Positive = 64
    """Rank of each adapter (paper: 64)."""
    alpha: Positive = 64
    """The adapters' output is multiplied by alpha / rank (paper: 64)."""


class Reward(_Section):
    """The parts of a turn's reward and their weights. Each part is logged separately."""

    game: Amount = 1.0
    """The game's own reward."""
    penalty: Amount = 1.0
    """The conversation's format penalty."""
    format: Amount = 0.0
    """A graded format reward: up to 1 for a thought and an answer that can be parsed, up to 2/3 where no
    thought is asked for."""
    grounded: Amount = 0.0
    """Share of correct positions in the thought, in the first mention of each kind of thing. Starters begin
    near the maximum on Sokoban."""
    prediction: Amount = 0.0
    """Share of the executed actions whose outcome the thought states correctly; a missing one is wrong."""
    in_filter: bool = True
    """Whether the filter uses the whole reward, or the game's alone."""


class Evaluation(_Section):
    """Evaluation of the policy during training."""

    every: Annotated[int, Field(ge=0)] = 10
    """Iterations between two evaluations; 0 switches evaluation off."""
    episodes: Positive = 256
    """Number of validation instances (paper: 256)."""
    temperature: Amount = 0.5
    """Sampling temperature (paper: 0.5)."""


class Monitor(_Section):
    """Thresholds of the echo-trap monitor, and its action (docs/training.md)."""

    window: Positive = 5
    """Latest iterations, compared with as many at the start."""
    success_floor: Share = 0.5
    """Collapse: mean success below this share of the best window's."""
    information_every: Annotated[int, Field(ge=0)] = 10
    """Iterations between two measurements of information; 0 for none."""
    information_prompts: Annotated[int, Field(ge=2)] = 16
    """Maximum replies in a sample; each is scored under all its prompts (RAGEN-2: 64)."""
    gradients_every: Annotated[int, Field(ge=0)] = 0
    """Iterations between two measurements of gradients (RAGEN-2's probe), each as slow as two to three
    updates of all groups; 0 for none."""
    action: Literal["warn", "stop", "rollback"] = "warn"
    """Action at a collapse. rollback returns to the last healthy checkpoint, and stops at the next
    collapse."""


class TrainConfig(_Section):
    """A training run."""

    format: Literal[1] = 1
    """Version of the run directory's layout."""
    weights: str | None = None
    """Hash of the initial model's files, filled in when training starts, except for "hf:NAME"."""
    game: str = "ragen/SokobanText-v0"
    """Id of a conversation env."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Conversation settings and keywords of the game."""
    model: str = "starter"
    """"starter", "smollm2" or another of `ragen models list`, a folder, a GGUF file, or "hf:NAME"."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    """Seed of all random numbers of the run."""
    iterations: Positive = 200
    """Number of iterations, each a rollout and an update (paper: 200)."""
    levels: Annotated[int, Field(ge=0)] = 0
    """Number of training levels; 0 for endless fresh ones."""
    engine: Literal["transformers", "vllm", "vllm-server"] = "transformers"
    """Engine that generates the rollouts, see docs/engines.md."""
    vllm: Vllm = Vllm()
    server: Server = Server()
    fsdp: bool = False
    """Whether processes shard weights, gradients and optimizer state (FSDP); affects memory and speed
    only."""
    rollout: Rollout = Rollout()
    filter: Filter = Filter()
    advantage: Advantage = Advantage()
    loss: Loss = Loss()
    update: Update = Update()
    critic: Critic = Critic()
    lora: Lora | None = None
    reward: Reward = Reward()
    evaluation: Evaluation = Evaluation()
    monitor: Monitor = Monitor()
    save_every: Positive = 10
    """Iterations between two checkpoints."""
    save_total_limit: Positive = 2
    """Checkpoints to keep, besides the best and, for a rollback, the last healthy one."""

    @property
    def has_critic(self) -> bool:
        """Whether a critic is trained, which depends on the estimator."""
        return ESTIMATORS[self.advantage.estimator].needs_critic

    @property
    def episodes(self) -> int:
        """Trajectories per iteration."""
        return self.rollout.prompts_per_iteration * self.rollout.group_size

    @property
    def most_episodes(self) -> int:
        """Episodes that are played at the same time, of training or evaluation."""
        return max(self.episodes, self.evaluation.episodes if self.evaluation.every else 0)

    @property
    def charges_divergence(self) -> bool:
        """Whether the initial policy is needed, because a divergence from it is applied."""
        return self.loss.kl != "none" and self.loss.kl_coef > 0

    @property
    def trusts_rollout_scores(self) -> bool:
        """Whether rollouts have the trainer's log-probabilities up to rounding, if no weights are sharded."""
        # A critic on the policy's trunk is passed together with the policy.
        shares_pass = self.has_critic and self.critic.kind == "shared"
        same = self.engine == "transformers" and self.update.precision == "float32"
        return same and not shares_pass

    def has_float32_head(self, on_cuda: bool) -> bool:
        """Return whether the output head runs in float32 under bfloat16, see ``update.float32_head``."""
        update = self.update
        if update.precision == "float32":
            return False
        if update.float32_head is not None:
            return update.float32_head
        several = update.epochs > 1 or self.episodes > update.mini_batch_size
        return several and not on_cuda

    @model_validator(mode="after")
    def _check_parts(self) -> "TrainConfig":
        """Check that estimator and filter get what they are registered to need."""
        estimator, group_filter = ESTIMATORS[self.advantage.estimator], FILTERS[self.filter.kind]
        if self.rollout.group_size < 2:
            for needs, setting in (
                (estimator.needs_group, f"advantage.estimator={estimator.name}"),
                (group_filter.needs_group, f"filter.kind={group_filter.name}"),
                (self.filter.refill > 0, f"filter.refill={self.filter.refill}"),
            ):
                if needs:
                    raise ValueError(
                        f"rollout.group_size is 1, but {setting} compares the members of a group: it must "
                        "be at least 2"
                    )
        for section, part, given in (
            ("advantage", estimator, self.advantage.params),
            ("filter", group_filter, self.filter.params),
            ("loss", POLICY_LOSSES[self.loss.policy_loss], self.loss.params),
        ):
            for name in given:
                if name not in part.params:
                    known = ", ".join(part.params) or "no settings of its own"
                    raise ValueError(f"unknown {section}.params.{name}; '{part.name}' has {known}")
        if self.update.critic_warmup and not estimator.needs_critic:
            raise ValueError(
                f"update.critic_warmup is {self.update.critic_warmup}, but with advantage.estimator="
                f"{estimator.name} there is no critic: nothing would be learned meanwhile"
            )
        if self.loss.kl == "reward" and not estimator.reads_token_rewards:
            raise ValueError(
                f"loss.kl=reward has no effect on advantage.estimator={estimator.name}, which does not read "
                "the rewards of tokens; use loss.kl=loss"
            )
        return self

    @model_validator(mode="after")
    def _check_values(self) -> "TrainConfig":
        bounds = self.loss.mis_bounds
        if bounds is not None and not bounds[0] < 1 < bounds[1]:
            raise ValueError(
                f"loss.mis_bounds is {list(bounds)}, but equal arithmetic has the ratio 1, which must lie "
                "between them"
            )
        if self.loss.kl == "reward" and self.loss.kl_estimator != "k1":
            raise ValueError("loss.kl_estimator must be k1 where loss.kl=reward")
        if self.loss.kl == "loss" and self.loss.kl_estimator == "k1":
            raise ValueError("loss.kl_estimator k1 has no gradient of its own as a loss; use k2 or k3")
        check_conversation(self.env_kwargs, "env_kwargs.")
        return self


def check_conversation(settings: Mapping[str, Any], prefix: str = "") -> None:
    """Check that trajectories can be built from conversations with some settings.

    Raises:
        ValueError: They cannot; the message names the setting, after the prefix.
    """
    if settings.get("observation") == IMAGE:
        raise ValueError(f"{prefix}observation is image, but training takes text: {', '.join(FORMATS)}")
    for name, why in (
        ("split", "training always uses the training split"),
        ("render_mode", "training draws no pictures"),
    ):
        if name in settings:
            raise ValueError(f"{prefix}{name} is {settings[name]!r:.40}, but {why}; leave it out")


def check_split(game: Any) -> None:
    """Check that a game plays the training split; what it is registered with can name another one.

    Raises:
        RagenError: It does not.
    """
    split = getattr(game, "split", TRAIN)
    if split != TRAIN:
        raise RagenError(
            f"the game is of the split {split!r:.40}, but training always uses the training split"
        )


def parts_of(config: TrainConfig) -> dict[str, Part]:
    """Return the parts that a config chooses, by the field that does."""
    return {
        ESTIMATORS.field: ESTIMATORS[config.advantage.estimator],
        FILTERS.field: FILTERS[config.filter.kind],
        POLICY_LOSSES.field: POLICY_LOSSES[config.loss.policy_loss],
        AGGREGATIONS.field: AGGREGATIONS[config.loss.agg_mode],
    }


def resources_of(config: TrainConfig) -> dict[str, Any]:
    """Return the fields that affect memory, speed, place and rounding only, as pydantic's ``exclude``.

    ``vllm.max_model_len`` is one of them by default only: a value that is given may end conversations.
    """
    vllm = {"cache_gib", "gpu_memory_utilization", "extra"}
    return {
        "server": True,
        "fsdp": True,
        "vllm": vllm | {"max_model_len"} if config.vllm.max_model_len is None else vllm,
        "update": {"max_tokens_per_micro_batch", "gradient_checkpointing"},
    }


PRESETS: Final[dict[str, dict[str, Any]]] = {
    "starpo-ppo": {"advantage": {"estimator": "gae"}, "loss": {"kl": "reward", "kl_estimator": "k1"}},
    "starpo-grpo": {"advantage": {"estimator": "grpo"}, "loss": {"kl": "loss", "kl_estimator": "k2"}},
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
        "update": {"learning_rate": 3e-4, "critic_learning_rate": 1e-3, "max_tokens_per_micro_batch": 3072},
    },
    "paper": {
        "model": "hf:Qwen/Qwen2.5-0.5B-Instruct",
        "rollout": {"max_tokens": 256},
        "update": {"precision": "bfloat16"},
    },
}
"""Model and learning rates: a starter model on a CPU, or the paper's."""
