import os
import sys

import pytest

# Tests run side by side; threads of several processes that wait for one another are slower than one each.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _own_accelerator():
    """Let each test choose its precision: accelerate keeps the first choice of a process."""
    yield
    state = sys.modules.get("accelerate.state")
    if state is not None:
        state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A model of the starter's tokenizer that babbles."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from ragen_agents.starter import STARTER
    from ragen_agents.starter.model_build import Recipe, as_llama, new_model

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = transformers.AutoTokenizer.from_pretrained(STARTER)
    torch.manual_seed(0)
    recipe = Recipe(hidden_size=32, layers=2, heads=2, kv_heads=1, intermediate_size=48)
    as_llama(new_model(recipe, tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
