"""How much memory a pipeline has of a GPU, as its operators see it."""

from __future__ import annotations

import re
from pathlib import Path

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from tests.integration.server.conftest import ask, endless, wait_for, watched


def test_the_status_and_the_metrics_say_how_much_of_the_memory_is_used(gpu: CudaDevice, repository: Path) -> None:
    model = repository / "models" / "street.onnx"
    pipeline = Pipeline(sources={"cam": endless()}, steps=[{"detect": {"model": str(model)}}], gpu=gpu)

    with watched(pipeline) as listener:
        wait_for(lambda: ask(listener.port, "/status").json()["gpus"].get("cuda:0", {}).get("used_bytes"))
        status = ask(listener.port, "/status").json()["gpus"]["cuda:0"]
        metrics = ask(listener.port, "/metrics").text

    found = dict(re.findall(r'^sightline_gpu_memory_(\w+)\{gpu="cuda:0"\} (\d+)$', metrics, re.MULTILINE))
    assert status["used_bytes"] == sum(status["by_pool"].values()) <= status["peak_bytes"] <= status["limit_bytes"]
    assert set(found) == {"limit_bytes", "used_bytes", "idle_bytes", "retries_total"}
    assert int(found["limit_bytes"]) == status["limit_bytes"] == gpu.budget.limit_bytes
    assert int(found["retries_total"]) == status["retries"] == 0
