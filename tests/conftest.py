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
