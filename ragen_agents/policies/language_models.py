"""Causal language models with a chat template as policies: in transformers, and in vLLM.

`Intervened` corrects what one states, by the rules of the game, while it generates.
"""

import itertools
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoTokenizer, StopStringCriteria

from ragen_agents.chat_template import ChatTemplate
from ragen_agents.engines import Completion, Engine, TokenRequest
from ragen_agents.engines.cpu.engine import TransformersEngine
from ragen_agents.engines.device import avoid_cudnn_attention, has_bfloat16, is_out_of_memory
from ragen_agents.engines.vllm.api import check_version
from ragen_agents.engines.vllm.engine import VllmEngine
from ragen_agents.engines.vllm.local import LocalSettings, load_local
from ragen_agents.model_files.folders import check_model_folder, load_weights, own_context
from ragen_agents.policies.base import Reply, Request, Sampling, closed
from ragen_agents.rollout.chat import saved_stops, stop_token_ids
from ragen_envs.errors import RagenError, first_line
from ragen_envs.game.claims import MOVE, Claim
from ragen_envs.levels.seeding import new_stream

_LOG: Final = logging.getLogger("ragen.policies")


class LanguageModelPolicy:
    """A causal language model with a chat template.

    Where the memory is not enough for ``batch_size`` conversations together, the number is halved.
    """

    # Made by each kind of model, which knows what ends its turns.
    _template: ChatTemplate
    _engine: Engine

    def __init__(self, source: str | Path, sampling: Sampling, name: str | None, batch_size: int) -> None:
        check_model_folder(Path(source))
        self.name = name or Path(source).name
        self.batch_size = batch_size
        self.sampling = sampling
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        except Exception as error:  # of files that may come from strangers
            raise not_loaded(source, error) from error
        if not self._tokenizer.chat_template:
            raise RagenError(f"model '{source}' has no chat template; save one with its tokenizer")
        self._context = 1 << 30

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Generate the replies of at most ``batch_size`` requests together."""
        return self.continue_replies(requests, [""] * len(requests))

    def continue_replies(self, requests: Sequence[Request], beginnings: Sequence[str]) -> list[Reply]:
        """Generate replies that begin with texts; both together have at most ``max_tokens``."""
        prompts = [self._template.prompt(request.messages, request.prefix) for request in requests]
        begun = [self._template.written(text) if text else [] for text in beginnings]
        room = self._context - self.sampling.max_tokens
        fits = [i for i, prompt in enumerate(prompts) if len(prompt) + len(begun[i]) <= room]
        replies = [Reply("", len(prompt), 0, overflow=True) for prompt in prompts]
        if fits:
            written = self._write([prompts[i] + begun[i] for i in fits], [requests[i].seed for i in fits])
            for i, (sampled, ended) in zip(fits, written, strict=True):
                ids = (begun[i] + sampled)[: self.sampling.max_tokens]
                stopped = ended and len(ids) == len(begun[i]) + len(sampled)
                replies[i] = self._reply(prompts[i], ids, stopped)
        return replies

    def release(self) -> None:
        """Release the keys and values of the conversations."""
        self._engine.release()

    def _write(self, prompts: list[list[int]], seeds: list[int]) -> list[tuple[list[int], bool]]:
        """Return the sampled ids of each prompt, and whether the model ended its turn."""
        written: list[tuple[list[int], bool]] = []
        while len(written) < len(prompts):
            part = slice(len(written), len(written) + self.batch_size)
            completions = self._completed(prompts[part], seeds[part])
            if completions is not None:
                written += [(completion.ids, completion.finish == "stop") for completion in completions]
                continue
            self.batch_size = count = len(prompts[part]) // 2
            self.release()
            torch.cuda.empty_cache()
            _LOG.warning("out of memory; %s generates %d replies at a time from now on", self.name, count)
        return written

    def _completed(self, prompts: list[list[int]], seeds: list[int]) -> list[Completion] | None:
        """Return the completion of each prompt, or None if the memory is not enough for several of them."""
        pairs = enumerate(zip(prompts, seeds, strict=True))
        requests = [TokenRequest(i, ids, seed, self.sampling.temperature) for i, (ids, seed) in pairs]
        completions: dict[int, Completion] = {}
        try:
            self._engine.submit(requests)
            while done := self._engine.poll():
                completions |= {completion.key: completion for completion in done}
        except (RuntimeError, MemoryError) as error:
            if len(prompts) == 1 or not is_out_of_memory(error):
                raise
            return None
        return [completions[i] for i in range(len(prompts))]

    def _reply(self, prompt: list[int], ids: list[int], stopped: bool) -> Reply:
        ended = stopped and ids[-1] in self._template.stop_token_ids
        text = self._template.read(ids[:-1] if ended else ids)
        if places := [text.index(stop) for stop in self.sampling.stop if stop in text]:
            text = closed(text[: min(places)], self.sampling.stop)
        return Reply(text, len(prompt), len(ids), cut_off=not stopped)


def not_loaded(source: str | Path, error: Exception) -> RagenError:
    """Return the error of a model that could not be loaded."""
    return RagenError(f"model '{source}' could not be loaded: {first_line(error)}")


class TransformersPolicy(LanguageModelPolicy):
    """Batched generation from a local or hub model with a chat template.

    Args:
        source: Folder of a saved model, or a hub id.
        sampling: Temperature and most tokens of a reply.
        name: Its name in tables; the folder's name by default.
        batch_size: Conversations generated together; halved where the memory is not enough for so many.
        device: "cpu", "cuda", or "auto" for the GPU if there is one.
        dtype: "float32", "bfloat16", "float16", or "auto": bfloat16 on a GPU; on a CPU bfloat16 if the
            weights are saved in it and the processor has instructions for it, else float32.

    Raises:
        RagenError: The folder holds no weights, or the model has no chat template.
    """

    def __init__(
        self,
        source: str | Path,
        sampling: Sampling,
        name: str | None = None,
        batch_size: int = 128,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        super().__init__(source, sampling, name, batch_size)
        avoid_cudnn_attention()
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            if dtype == "auto":
                saved = AutoConfig.from_pretrained(source, trust_remote_code=False).dtype
                fast = device != "cpu" or (saved == torch.bfloat16 and has_bfloat16())
                dtype = "bfloat16" if fast else "float32"
            model = load_weights(source, dtype)
            model.eval().to(device)
        except Exception as error:  # of files that may come from strangers
            raise not_loaded(source, error) from error
        self._context = own_context(model.config)
        stops = stop_token_ids(model.generation_config, self._tokenizer)
        self._template = ChatTemplate(self._tokenizer, stops)
        pad = self._tokenizer.pad_token_id or 0
        ends_with_stop = None
        if sampling.stop:
            criteria: Any = StopStringCriteria(self._tokenizer, list(sampling.stop))
            ends_with_stop = partial(criteria, scores=None)
        self._engine = TransformersEngine(
            model, stops, pad, sampling.max_tokens, ends_with_stop=ends_with_stop
        )


class VllmPolicy(LanguageModelPolicy):
    """Generation by vLLM, in this process, from a local or hub model with a chat template.

    Args:
        source: Folder of a saved model, or a hub id.
        sampling: Temperature and most tokens of a reply.
        name: Its name in tables; the folder's name by default.
        batch_size: Conversations generated together.

    Raises:
        RagenError: vLLM is missing, of an unknown version, or cannot load the model; the folder holds no
            weights; the model has no chat template.
    """

    def __init__(
        self,
        source: str | Path,
        sampling: Sampling,
        name: str | None = None,
        batch_size: int = 256,
    ) -> None:
        check_version()
        super().__init__(source, sampling, name, batch_size)
        try:
            config = AutoConfig.from_pretrained(source, trust_remote_code=False)
        except Exception as error:
            raise not_loaded(source, error) from error
        stops = saved_stops(str(source), config, self._tokenizer)
        self._template = ChatTemplate(self._tokenizer, stops)
        settings = LocalSettings(None, batch_size, sleeps=False)
        model = load_local(source, settings)
        self._context = min(own_context(config), model.context)
        self._engine = VllmEngine(model, stops, sampling.max_tokens, sampling.stop)


class Intervened:
    """A language model that must go on from statements which were put into its thought.

    A reply is generated; where a statement differs from what is wanted, the text from there on is replaced by
    the statement, and the model continues. So it chooses all actions, and knows only what it reads.

    Args:
        policy: The model.
        truth: True makes every statement true. False makes the first statement of each reply false.
        kind: Of the claims: `MOVE` or `PLACE`.
    """

    def __init__(self, policy: LanguageModelPolicy, truth: bool, kind: str = MOVE) -> None:
        self.name = policy.name
        self.batch_size = policy.batch_size
        self._policy, self._truth, self._kind = policy, truth, kind

    def act(self, requests: Sequence[Request]) -> list[Reply]:
        """Generate replies, and continue from each statement that is written."""
        replies = self._policy.act(requests)
        begun = dict.fromkeys(range(len(requests)), "")
        for times in itertools.count(1):
            corrected = {i: self._intervene(requests[i], replies[i], before) for i, before in begun.items()}
            begun = {i: text for i, text in corrected.items() if text is not None}
            if not begun:
                break
            # The same draws again would repeat what they led to before.
            again = [
                replace(requests[i], seed=new_stream("intervention", str(times), requests[i].seed))
                for i in begun
            ]
            continued = self._policy.continue_replies(again, list(begun.values()))
            for i, reply in zip(begun, continued, strict=True):
                replies[i] = reply
        return replies

    def release(self) -> None:
        """Release what the model keeps of the conversations."""
        self._policy.release()

    def _intervene(self, request: Request, reply: Reply, begun: str) -> str | None:
        """Return the corrected beginning of a reply; None if nothing has to change.

        The end of the statement is the model's to write: a full stop would often be another token than its
        own. Only where it goes on until the statement is not as wanted any more, it gets a full stop.
        """
        env: Any = request.conversation
        for claim in () if reply.overflow else env.claims(reply.text, reply.cut_off):
            if claim.true is None or not claim.kind.startswith(self._kind):
                continue
            if claim.true is not self._truth and claim.end > len(begun):
                if claim.start < len(begun):
                    return None if begun.endswith(".") else begun + "."
                before = reply.text[: claim.start]
                facts = [claim.fact] if self._truth else _lies(env, before, claim, request.seed)
                for fact in facts:
                    text = before + _in_words_of(claim.stated, fact)
                    written = _claim_at(env, text, claim.start)
                    if written is not None and written.true is self._truth:
                        return text
            if not self._truth:
                return None
        return None


def _claim_at(env: Any, text: str, start: int) -> Claim | None:
    return next((claim for claim in env.claims(text, True) if claim.start == start), None)


def _in_words_of(stated: str, fact: str) -> str:
    """Return a fact with the beginning and the capital of a statement: of "3 Up moves", "3 Up fails"."""
    name = fact.split()[0]
    place = max(stated.casefold().find(name.casefold()), 0)
    word = name.capitalize() if stated[place].isupper() else name
    return re.sub("^no ", "", stated[:place], flags=re.IGNORECASE) + word + fact[len(name) :]


def _lies(env: Any, before: str, claim: Claim, seed: int) -> Iterator[str]:
    """Yield candidates for a false claim: outcomes of other actions, then changed numbers."""
    if claim.kind == MOVE and isinstance(claim.action, int):
        name, first = env.names[claim.action], seed % len(env.names)
        for other in (*env.names[first:], *env.names[:first]):
            probe = re.sub(re.escape(name), other, claim.stated, count=1, flags=re.IGNORECASE)
            outcome = _claim_at(env, before + probe, claim.start)
            if outcome is not None and outcome.fact.startswith(other):
                yield name + outcome.fact.removeprefix(other)
    for number in re.finditer(r"\d+", claim.fact):
        for step in (1, -1):
            changed = str(abs(int(number[0]) + step))
            yield claim.fact[: number.start()] + changed + claim.fact[number.end() :]
