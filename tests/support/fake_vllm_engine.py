"""vLLM's engine in this process as the trainer drives it, by transformers: a peer for tests without vLLM."""

import copy
import sys
from types import ModuleType, SimpleNamespace

import torch

from ragen_agents.engines.cpu.decoding import Decoder
from ragen_agents.engines.vllm.local import LocalModel

TAGS = ("weights", "kv_cache")


class FakeVllmEngine:
    """Has weights that sleep and wake as those of vLLM 0.32 do.

    Args:
        model: Whose weights it begins with.
        fails: What a method raises, by its name; a list gives one item to each call.
    """

    def __init__(self, model, **fails):
        self.model = copy.deepcopy(model)
        self.fails, self.calls, self.asleep = fails, [], set()
        self.model_config = SimpleNamespace(max_model_len=512)
        self.engine_core = SimpleNamespace(shutdown=lambda: self._called("shutdown"))
        self.model_runner = SimpleNamespace(get_model=lambda: self.model)
        self._label, self._queue = "default", []
        self._host = None

    def _called(self, what, *arguments):
        self.calls.append((what, *arguments))
        planned = self.fails.get(what)
        error = planned.pop(0) if isinstance(planned, list) and planned else planned
        if isinstance(error, Exception):
            raise error

    def sleep(self, level):
        self._called("sleep", level)
        assert not self._queue
        assert not self.asleep
        if level == 1:
            self._host = copy.deepcopy(self.model.state_dict())
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.fill_(float("nan"))
        self.asleep = set(TAGS)

    def wake_up(self, tags=None):
        self._called("wake_up", *(tags or ()))
        woken = set(tags or self.asleep)
        assert woken <= self.asleep
        if "weights" in woken and self._host is not None:
            self.model.load_state_dict(self._host)
            self._host = None
        self.asleep -= woken

    def collective_rpc(self, method, kwargs=None):
        if callable(method):
            return [method(SimpleNamespace(model_runner=self.model_runner))]
        assert method == "reload_weights"
        assert "weights" not in self.asleep
        sent = dict(kwargs["weights_iterator"])
        self._called("reload_weights")
        self.model.load_state_dict(sent, strict=False)
        return [None]

    def reset_prefix_cache(self):
        self._called("reset_prefix_cache")
        return True

    def set_weight_version(self, label):
        self._label = label

    def add_request(self, name, prompt, params):
        self._called("add_request")
        assert not self.asleep
        self._queue.append((name, prompt["prompt_token_ids"], params.fields))

    def step(self):
        self._called("step")
        assert not self.asleep
        queue, self._queue = self._queue, []
        return [self._answer(*request) for request in queue]

    def _answer(self, name, ids, fields):
        if "prompt_logprobs" in fields:
            with torch.no_grad():
                logs = torch.log_softmax(self.model(torch.tensor([ids])).logits[0].float(), -1)
            places = [_place(t, logs[i, t]) for i, t in enumerate(ids[1:])]
            return SimpleNamespace(finished=True, prompt_logprobs=[None, *places])
        ends = frozenset(fields["stop_token_ids"])
        decoder = Decoder(self.model, ends, 0, fields["temperature"], fields["max_tokens"])
        sample = decoder.run([ids], [fields["seed"]])[0][0]
        reply = SimpleNamespace(
            token_ids=sample.ids, finish_reason=sample.finish,
            logprobs=[_place(t, p) for t, p in zip(sample.ids, sample.logprobs, strict=True)],
            weight_versions=[SimpleNamespace(version=self._label)],
        )  # fmt: skip
        return SimpleNamespace(finished=True, request_id=name, outputs=[reply])


def _place(token, logprob):
    return {token: SimpleNamespace(logprob=float(logprob))}


def sleeping_model(engine):
    """Return the model of an engine on a device whose memory it can leave."""
    return LocalModel(engine, "float32", can_sleep=True)


def pretend_vllm(monkeypatch):
    """Let requests be made of vLLM's classes where it is not installed."""
    vllm, params = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vllm.SamplingParams = lambda **fields: SimpleNamespace(fields=fields)
    params.RequestOutputKind = SimpleNamespace(FINAL_ONLY=2)
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
