"""What ``vllm serve`` 0.32 answers on the routes that training uses, by transformers: a peer for tests."""

import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import torch
from endpoint_server import EndpointServer
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from ragen_agents.engines.cpu.decoding import Decoder
from ragen_agents.engines.weights import digest_of

VERSION = "0.32.0"


class VllmServer(EndpointServer):
    """Serves a model folder; a context manager.

    Args:
        folder: Of the model.
        faults: See `EndpointServer`.
        settings: What differs in the settings that it tells.
    """

    def __init__(self, folder, faults=0.0, kinds=("500",), settings=(), version=VERSION):
        super().__init__(self._route, faults, kinds)
        self.told = {
            "dtype": "torch.float32", "logprobs_mode": "processed_logprobs", "max_model_len": 4096,
            **dict(settings),
        }  # fmt: skip
        self._folder, self._version = folder, version
        self._lock = threading.Lock()
        self.restart()

    def restart(self):
        """Forget the weights that were sent, as a process does that was killed."""
        self.model = AutoModelForCausalLM.from_pretrained(self._folder, dtype="float32").eval()
        self.label, self.paused, self.loads, self.dtypes = "default", False, [], set()

    def fail(self):
        """Cut off every request from now on."""
        self.faults, self.kinds = 1.0, ("reset",)

    def before_reply(self, number, version, act):
        """Call a function once, before the reply of a number that is asked of a version of the weights."""
        real, asked, acted = self.post_inference_v1_generate, [], []

        def generate(*arguments):
            asked.append(self.label)
            if sum(label.endswith(f"-{version}") for label in asked) == number and not acted:
                acted.append(number)
                act()
            return real(*arguments)

        self.post_inference_v1_generate = generate

    @property
    def root(self):
        return self.url.removesuffix("/v1")

    def _route(self, body, headers):
        method, target, _ = headers["request"].split()
        url = urlsplit(target)
        handler = getattr(self, f"{method.lower()}_{url.path.strip('/').replace('/', '_')}", None)
        if handler is None:
            return 404, {"detail": "Not Found"}, []
        with self._lock:
            return handler(body, parse_qs(url.query))

    def get_version(self, *_):
        return {"version": self._version}

    def get_server_info(self, _, query):
        assert query == {"config_format": ["json"]}
        return {"vllm_config": {"model_config": self.told}}

    def post_pause(self, _, query):
        assert query == {"mode": ["abort"]}
        self.paused = True
        return {"status": "paused"}

    def post_collective_rpc(self, body, _):
        assert self.paused
        assert body["method"] == "reload_weights"
        folder = Path(body["kwargs"]["weights_path"])
        self.loads.append(folder)
        weights = load_file(folder / "model.safetensors")
        assert "lm_head.weight" in weights
        self.dtypes = {str(weight.dtype) for weight in weights.values()}
        self.model.load_state_dict(weights)
        return {"results": [None]}

    def post_weight_checker(self, body, _):
        assert body == {"action": "checksum"}
        dtype = getattr(torch, self.told["dtype"].removeprefix("torch."))
        weights = {name: w.to(dtype) for name, w in self.model.named_parameters()}
        return {"checksums": {f"dp0:pp0:pcp0:tp0:{n}": digest_of(w) for n, w in weights.items()}}

    def post_reset_prefix_cache(self, *_):
        return {"success": True}

    def post_update_weight_version(self, body, _):
        self.label = body["new_version"]
        return {"success": True, "new_version": self.label}

    def get_weight_info(self, *_):
        return {"weight_version": self.label}

    def post_resume(self, *_):
        self.paused = False
        return {"status": "resumed"}

    def post_inference_v1_generate(self, body, _):
        if self.paused:
            return 503, {"error": {"message": "real servers answer once they are resumed"}}, []
        ids, asked = body["token_ids"], body["sampling_params"]
        if "prompt_logprobs" in asked:
            return {"choices": [{}], "prompt_logprobs": [None, *self._scores(ids)]}
        ends = frozenset(asked["stop_token_ids"])
        decoder = Decoder(self.model, ends, 0, asked["temperature"], asked["max_tokens"])
        sample = decoder.run([ids], [asked["seed"]])[0][0]
        content = [
            {"token_id": token, "logprob": logprob}
            for token, logprob in zip(sample.ids, sample.logprobs, strict=True)
        ]
        span = {"version": self.label, "start": 0, "end": len(sample.ids)}
        choice = {
            "index": 0, "finish_reason": sample.finish, "token_ids": sample.ids,
            "logprobs": {"content": content}, "weight_versions": [span],
        }  # fmt: skip
        return {"request_id": "r", "choices": [choice]}

    @torch.no_grad()
    def _scores(self, ids):
        logs = torch.log_softmax(self.model(torch.tensor([ids])).logits[0], -1)
        return [
            {str(token): {"logprob": float(logs[place, token]), "rank": 1}}
            for place, token in enumerate(ids[1:])
        ]
