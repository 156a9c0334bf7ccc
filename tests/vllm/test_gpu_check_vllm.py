"""The stage of ``make gpu`` that needs vLLM, with tiny sizes on a CPU."""

import json
import os
import subprocess
import sys

from checkout import ROOT


def test_everything_is_done_with_one_start(tmp_path):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    command = [
        sys.executable, "-m", "gpu_check.vllm_run", "--tiny", "--work", str(tmp_path),
        "--json", str(tmp_path / "found.json"),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert "CPU" in found["start"]["runner"]
    assert found["start"]["attention"] == ["CPU_ATTN"]
    assert found["episodes"]["episodes"] == 4
    assert found["sleep"]["gap_nats"] < 1e-4
    assert "vLLM holds others in" in found["missed_update"]["noticed"]
    for part in ("all_kept", "quarter_kept"):
        assert found[part]["iterations"] == 3
        assert found[part]["seconds"]["total"] > 0
    assert {row["outcome"] for row in found["tests"]} == {"passed", "skipped"}
    assert not list(tmp_path.rglob("checkpoints"))
