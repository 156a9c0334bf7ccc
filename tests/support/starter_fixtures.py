"""The starter model and its codec, for tests beside vLLM and on a GPU."""

import pytest

from ragen_agents.starter import STARTER


@pytest.fixture
def starter():
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(STARTER).eval()


@pytest.fixture(scope="session")
def codec():
    import transformers

    from ragen_agents.rollout.chat import ChatCodec, stop_token_ids

    tokenizer = transformers.AutoTokenizer.from_pretrained(STARTER)
    generation = transformers.GenerationConfig.from_pretrained(STARTER)
    return ChatCodec(tokenizer, stop_token_ids(generation, tokenizer))
