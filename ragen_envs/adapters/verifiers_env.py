"""Play games as a verifiers taskset and environment; the game takes the user's part.

The package ``environments/ragen_games`` exports these classes under the name by which verifiers loads them:
``vf-eval ragen-games --env.taskset.game ragen/SokobanText-v0``.
"""

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.runtimes import ProgramResult, SubprocessConfig

from ragen_envs.adapters.shared import check_whole_history, draw_noise, make_text_only
from ragen_envs.conversation import ConversationWrapper
from ragen_envs.errors import RagenError


class RagenConfig(vf.TasksetConfig):
    """Game and levels of an environment."""

    game: str = "ragen/SokobanText-v0"
    """Id of a conversation env."""
    split: str = "test"
    """Split of the frozen levels."""
    levels: int = 256
    """Number of levels, beginning with the first."""
    settings: dict[str, Any] = {}
    """Settings of the conversation and the game that differ from those of the id."""


class RagenData(vf.TaskData):
    """A level."""

    game: str
    split: str
    index: int
    settings: dict[str, Any]


class RagenTask(vf.Task[RagenData, vf.State, vf.TaskConfig]):
    """A level as a task."""


class RagenTaskset(vf.Taskset[RagenTask, RagenConfig]):
    """The frozen levels of a game."""

    def load(self) -> Iterator[RagenTask]:
        """Yield a task for each level."""
        config = self.config
        for index in range(config.levels):
            env = _open(config.game, config.split, index, config.settings, noise=0)
            data = RagenData(
                name=f"{config.game} {config.split} {index}",
                system_prompt=env.system,
                prompt=env.messages[1:] if env.examples else env.user,
                game=config.game,
                split=config.split,
                index=index,
                settings=config.settings,
            )
            yield RagenTask(data, config.task)


class RagenHarness(vf.Harness[vf.HarnessConfig]):
    """One chat completion a turn, in this process: no tools, no sandbox."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, mcp_urls: Any,
        data: Any, tool_interception_url: str | None = None,
    ) -> ProgramResult:  # fmt: skip
        """Ask the model for the next reply; verifiers records what passes the endpoint."""
        system, prompt = self.resolve_prompt(data)
        messages = [] if system is None else [{"role": "system", "content": system}]
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages.extend(message_to_wire(message) for message in prompt or ())
        async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return ProgramResult(0, "", "")


class RagenEnvConfig(vf.EnvConfig):
    """Environment with its harness, which runs in this process, since it executes nothing."""

    player: vf.AgentConfig = vf.AgentConfig(runtime=SubprocessConfig())


class RagenEnv(vf.Env[RagenEnvConfig]):
    """One episode: the player replies, the game answers as the user, until the game is over."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play a level; the reward is the sum of the game's rewards and penalties.

        Each rollout of a level has random events of its own.
        """
        data = task.data
        env = _open(data.game, data.split, data.index, data.settings, draw_noise())
        total = 0.0
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                cut = bool(interaction.trace.is_truncated)
                total += env.play(segment.last_reply or "", truncated=cut).reward
                if env.end is not None:
                    break
                segment = await interaction.turn(env.user)
        interaction.trace.record_reward("episode_return", total, 1.0)
        if env.success is not None:  # an environment from outside may not know
            interaction.trace.record_metric("success", float(env.success))


def _open(game: str, split: str, index: int, settings: dict[str, Any], noise: int) -> ConversationWrapper:
    if settings.get("think_prefix"):
        raise RagenError("think_prefix is true, but must be false: no turn begins with it here")
    env = make_text_only(game, **settings)
    check_whole_history(env)
    env.reset(options={"split": split, "index": index, "noise": noise})
    return env
