"""Everything that decides a training run, as data. Each field says what it does and where it comes from."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragen_agents.starpo.filters import FilterKind
from ragen_agents.starpo.losses import Aggregation, KlEstimator
from ragen_envs.text import FORMATS, IMAGE

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Unit = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class Rollout(_Section):
    """How trajectories are collected."""

    groups: Positive = 8
    """P, initial states an iteration (paper: 8)."""
    members: Positive = 16
    """N, episodes from each initial state (paper: 16)."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Of the sampling (paper: 1). Losses use the same, so that ratios compare like with like."""
    max_tokens: Positive = 200
    """Most tokens of one reply."""


class Vllm(_Section):
    """How vLLM runs where ``engine`` is vllm."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the rollouts; auto is float32 on a CPU and bfloat16 on a GPU."""
    cache_gib: Annotated[float, Field(gt=0)] = 1.0
    """Memory for keys and values, in GiB; too little costs speed, not correctness."""


class Server(_Section):
    """Where the server is where ``engine`` is vllm-server. Nothing here decides a result."""

    url: str = "http://127.0.0.1:8000"
    """Of the server's root."""
    folder: str | None = None
    """Of this run alone, seen by trainer and server under the same path: through it the server gets new
    weights. By default the run directory."""
    timeout: Annotated[float, Field(gt=0)] = 300.0
    """Seconds that one request may take."""
    patience: Amount = 300.0
    """Seconds without an answer after which the run stops, its state saved."""


class Filter(_Section):
    """Which groups are learned from."""

    kind: FilterKind = "none"
    """none, std (StarPO-S), variance-share (RAGEN-2), nonzero, or random (the control)."""
    keep: Share = 0.25
    """The share that std, variance-share and random keep (paper: 0.25)."""


class Advantage(_Section):
    """How returns become advantages."""

    kind: Literal["grpo", "gae", "turn-gae", "bilevel-gae"] = "gae"
    """grpo needs no critic; gae is the paper's PPO; the others count turns."""
    gamma: Unit = 1.0
    """Discount per action token (paper: 1)."""
    lam: Unit = 1.0
    """Lambda per action token (paper: 1)."""
    turn_gamma: Unit = 1.0
    """Discount per turn, for turn-gae and bilevel-gae."""
    turn_lam: Unit = 1.0
    """Lambda per turn, for turn-gae and bilevel-gae."""
    whiten: bool = True
    """Whether advantages of a critic are whitened over the kept action tokens."""


class Loss(_Section):
    """What is minimised."""

    clip_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """The ratio is clipped to at least 1 - this (paper: 0.2)."""
    clip_high: Annotated[float, Field(gt=0)] = 0.2
    """And to at most 1 + this (paper: 0.2; StarPO-S 0.28)."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound of the loss where the advantage is negative; verl has 3, the paper none."""
    entropy: Amount = 0.001
    """Coefficient of the entropy bonus (paper: 0.001)."""
    kl: Literal["none", "reward", "loss"] = "none"
    """Where the divergence from the initial policy is charged (paper: reward; StarPO-S: none)."""
    kl_coefficient: Amount = 0.001
    """Its coefficient (paper: 0.001)."""
    kl_estimator: KlEstimator = "k1"
    """Estimator of that divergence; rewards take k1 (paper), losses k2 or k3."""
    aggregation: Aggregation = "token-mean"
    """token-mean, or sequence-mean, the paper's formula."""
    value_clip: Amount | None = None
    """Values are clipped to within this of the old ones; none by default."""
    importance_cap: Annotated[float, Field(ge=1)] | None = 2.0
    """Cap of the weights that correct for an engine unlike the trainer; None for no correction."""


class Update(_Section):
    """How the weights change."""

    batch: Positive = 32
    """E, trajectories of an optimizer step (paper: 32)."""
    steps: Literal["as-published", "equal"] = "as-published"
    """as-published: one step for each E of the trajectories kept, so a filter also cuts the steps.
    equal: as many steps as without a filter, each on fewer trajectories."""
    epochs: Positive = 1
    """Online-k: updates, each a pass over the kept trajectories, before the next are collected
    (paper: 1; its study of freshness has 5 and 10)."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-6
    """Of the policy (RAGEN's code: 1e-6)."""
    critic_learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    """Of the critic (RAGEN's code: 1e-5)."""
    critic_warmup: Annotated[int, Field(ge=0)] = 0
    """Iterations in which only the critic learns."""
    betas: tuple[Unit, Unit] = (0.9, 0.999)
    """Adam's (paper: 0.9, 0.999)."""
    max_gradient: Annotated[float, Field(gt=0)] = 1.0
    """Gradients are clipped to this norm, policy and critic apart."""
    micro_tokens: Positive = 16384
    """Most tokens, padding counted, of one pass; only memory and speed depend on it."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the passes (autocast); weights stay in float32."""
    patience: Positive = 3
    """Optimizer steps with a gradient that is not finite, in a row, that end the run."""


class Critic(_Section):
    """The value model, for every advantage but grpo."""

    kind: Literal["separate", "shared"] = "separate"
    """A model of its own that begins as the policy's trunk, or a head on the policy's."""
    coefficient: Amount = 0.5
    """Weight of the value loss where the trunk is shared."""


class Lora(_Section):
    """Low-rank adapters on all linear layers instead of all weights (paper, appendix D)."""

    rank: Positive = 64
    """Of each adapter (paper: 64)."""
    alpha: Positive = 64
    """What an adapter adds is multiplied by alpha / rank (paper: 64)."""


class Reward(_Section):
    """Parts of a turn's reward, each with its weight; they are logged apart."""

    game: Amount = 1.0
    """The game's own reward."""
    penalty: Amount = 1.0
    """The conversation's format penalty."""
    format: Amount = 0.0
    """Graded form of the reply: up to 1 for a thought and an answer that can be read."""
    grounded: Amount = 0.0
    """Share of the places that the thought tells which are true of the board: 0 to 1; 0 in games without
    places."""
    in_filter: bool = True
    """Whether the filter's spread is that of the whole reward, or of the game's alone."""


class Evaluation(_Section):
    """How the policy is scored while it trains."""

    every: Annotated[int, Field(ge=0)] = 10
    """Iterations between two evaluations; 0 for none at all."""
    episodes: Positive = 256
    """Validation instances (paper: 256)."""
    temperature: Amount = 0.5
    """Of the sampling (paper: 0.5)."""


class Monitor(_Section):
    """When the echo-trap monitor warns, and what then happens. See docs/metrics.md."""

    window: Positive = 5
    """Iterations that are compared with as many first ones. On recorded runs a longer one saw collapses
    later, and gave no fewer false alarms."""
    spread_floor: Share = 0.3
    """Early sign: in-group reward deviation under this share of its baseline."""
    entropy_floor: Share = 0.3
    """Early sign: token entropy under this share of its baseline."""
    gradient_spike: Annotated[float, Field(gt=1)] = 5.0
    """Late sign: gradient norms of three iterations in a row above this many times the median of the
    window before."""
    reward_drop: Share = 0.5
    """Collapse: mean success under this share of the best window's."""
    information_every: Annotated[int, Field(ge=0)] = 10
    """Iterations between two measurements of the replies' information about their prompts; 0 for none."""
    action: Literal["warn", "stop", "rollback"] = "warn"
    """What a collapse leads to. rollback goes back to the last healthy checkpoint, once, and stops at the
    next one; a run that was stopped stays so."""


class TrainConfig(_Section):
    """A training run."""

    format: Literal[1] = 1
    """Version of the run directory's layout."""
    weights: str | None = None
    """Hash of the initial model's files, if it is a folder; `ragen train` fills it in."""
    game: str = "ragen/SokobanText-v0"
    """Id of a conversation env."""
    env_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keywords for it: conversation settings and the game's."""
    model: str = "starter"
    """"starter", a folder, or "hf:NAME"."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of everything."""
    iterations: Positive = 200
    """Rollout-update iterations (paper: 200)."""
    levels: Annotated[int, Field(ge=0)] = 0
    """How many training levels there are; 0 for endless fresh ones."""
    engine: Literal["transformers", "vllm", "vllm-server"] = "transformers"
    """What generates the rollouts: transformers in the same process, vLLM there, or a server."""
    vllm: Vllm = Vllm()
    server: Server = Server()
    shard: bool = False
    """Whether several processes split weights, gradients and optimizer state (FSDP), instead of each
    holding all of them. It decides no result."""
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
    keep: Positive = 2
    """Checkpoints that are kept, besides the best and, for a rollback, the last healthy one."""

    @property
    def has_critic(self) -> bool:
        """Whether a critic learns."""
        return self.advantage.kind != "grpo"

    @property
    def episodes(self) -> int:
        """Trajectories an iteration."""
        return self.rollout.groups * self.rollout.members

    @model_validator(mode="after")
    def _check(self) -> "TrainConfig":
        if self.advantage.kind == "grpo" and self.rollout.members < 2:
            raise ValueError(
                "rollout.members is 1, but advantage.kind=grpo compares members: at least 2"
            )
        if self.filter.kind not in ("none", "random") and self.rollout.members < 2:
            raise ValueError(
                f"rollout.members is 1, but filter.kind={self.filter.kind} needs at least 2: the returns "
                "of a single episode have no spread, so nothing would be kept"
            )
        if self.env_kwargs.get("history", "full") != "full":
            raise ValueError(
                "env_kwargs.history must be full in training: trajectories are built by appending tokens"
            )
        if self.env_kwargs.get("observation") == IMAGE:
            raise ValueError(
                f"env_kwargs.observation is image, but models read text here: {', '.join(FORMATS)}"
            )
        if self.update.critic_warmup and not self.has_critic:
            raise ValueError(
                f"update.critic_warmup is {self.update.critic_warmup}, but with advantage.kind=grpo there "
                "is no critic: nothing would be learned meanwhile"
            )
        if self.loss.kl == "reward" and self.loss.kl_estimator != "k1":
            raise ValueError("loss.kl_estimator must be k1 where loss.kl=reward")
        if self.loss.kl == "reward" and not self.has_critic:
            raise ValueError(
                "loss.kl=reward needs a critic; with advantage.kind=grpo use loss.kl=loss"
            )
        if self.loss.kl == "loss" and self.loss.kl_estimator == "k1":
            raise ValueError(
                "loss.kl_estimator k1 has no gradient of its own as a loss; use k2 or k3"
            )
        return self
