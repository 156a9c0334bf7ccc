"""The type in which a model runs on a CPU."""

import pytest

torch = pytest.importorskip("torch")

from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from ragen_agents.policies import Request, Sampling, transformers_policy  # noqa: E402
from ragen_agents.starter import STARTER  # noqa: E402
from ragen_envs.conversation import make  # noqa: E402


@pytest.mark.parametrize("saved", ["float32", "bfloat16"])
@pytest.mark.parametrize("fast", [True, False])
def test_a_model_runs_in_the_type_it_is_saved_in_where_that_is_fast(
    saved, fast, tmp_path, monkeypatch
):
    AutoTokenizer.from_pretrained(STARTER).save_pretrained(tmp_path)
    AutoModelForCausalLM.from_pretrained(STARTER, dtype=saved).save_pretrained(tmp_path)
    monkeypatch.setattr(transformers_policy, "has_bfloat16", lambda: fast)
    used = []
    load = AutoModelForCausalLM.from_pretrained

    def loaded(*arguments, **options):
        used.append(options["dtype"])
        return load(*arguments, **options)

    monkeypatch.setattr(transformers_policy.AutoModelForCausalLM, "from_pretrained", loaded)
    policy = transformers_policy.TransformersPolicy(tmp_path, Sampling(0, 4), device="cpu")
    assert used == ["bfloat16" if fast and saved == "bfloat16" else "float32"]
    env = make("ragen/BanditText-v0")
    env.reset(seed=0)
    (reply,) = policy.act([Request(env.messages, 0, env)])
    assert 0 < reply.reply_tokens <= 4
