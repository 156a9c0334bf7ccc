import functools
import gc
import importlib.util
import os
import sys

import pytest

# Tests run side by side; threads of several processes that wait for one another are slower than one each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ray's workers yield to everything else by default (15), so beside other tests they hardly run.
os.environ.setdefault("RAY_worker_niceness", "0")
# Hundreds of processes import the packages; without compiled modules each would compile them first.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if importlib.util.find_spec("hypothesis"):  # not where only engines or integrations are tested
    from hypothesis import settings

    examples = int(os.environ.get("EXAMPLES", "40"))  # the nightly tests take more
    settings.register_profile("suite", deadline=None, max_examples=examples)  # tests run beside others
    settings.load_profile("suite")

if importlib.util.find_spec("typer") and importlib.util.find_spec("httpcore2"):
    import httpcore2
    import typer.main

    # A thousand tests call the command line or ask a server: load the commands and the certificates once.
    typer.main.get_command = functools.cache(typer.main.get_command)
    httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

SLOW_FILES = frozenset(
    """
    test_adapters test_added_seeds test_attempts test_blank test_broken_extensions test_chat
    test_checkout test_claims test_cli test_clusters test_collect test_compare test_credit
    test_documentation_site test_documented_commands test_endpoint test_endpoint_budgets
    test_endpoint_endings test_extending test_faults test_gpu_check test_gradient_probe
    test_gradients test_hostile_agents test_hostile_models test_interruption test_intervention
    test_kept_results test_keys test_leaderboard test_learning test_match test_match_notes
    test_memory_plan test_memory_plan_command test_missing_packages test_model_files
    test_old_logprobs test_old_versions test_optimizers test_out_of_memory test_packaging
    test_power test_premises test_published_methods test_recipes test_registered_parts
    test_reproduction test_resuming test_rows test_running_loop test_served_model test_sft
    test_shared_sweeps test_shop_browser test_site test_standings test_starter test_statistics
    test_submit test_sweep_devices test_sweeps test_thoughts test_train_sweeps
    test_trainer_parts test_training test_training_inputs test_training_report
    test_transformers_policy test_tutorials test_update_memory test_verify test_view
    test_view_transcripts test_vllm_in_process test_word_suite
    """.split()
)
"""Files whose tests train, start processes or read many results; ``make test-fast`` leaves them out."""


def pytest_ignore_collect(collection_path, config):
    """Leave slow files out of the inner loop before they import their libraries."""
    return (config.option.markexpr == "not slow" and collection_path.stem in SLOW_FILES) or None


def pytest_collection_finish():
    """Spare the collector what stays anyway, modules and tests: it takes a tenth of the time otherwise."""
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem in SLOW_FILES:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _own_accelerator():
    """Let each test choose its precision: accelerate keeps the first choice of a process."""
    yield
    state = sys.modules.get("accelerate.state")
    if state is not None:
        state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A model of the starter's tokenizer that babbles."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from ragen_agents.starter import STARTER
    from ragen_agents.starter.blank import as_llama, new_model

    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = transformers.AutoTokenizer.from_pretrained(STARTER)
    torch.manual_seed(0)
    as_llama(new_model(tokenizer, 32, 2, 48, heads=2, kv_heads=1)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def fails(capsys):
    """Run a command that must be refused in one line, and return the line."""

    def check(*arguments):
        from ragen_bench.__main__ import main

        capsys.readouterr()
        assert main([str(a) for a in arguments]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("error: ")
        assert len(shown.err.splitlines()) == 1
        assert not shown.out
        return shown.err

    return check
