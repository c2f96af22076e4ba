"""`device:` on a machine without a GPU: refused at once when it is asked for, told once when it is not."""

from __future__ import annotations

import json
import resource

import pytest
from tests.integration.cli.conftest import Sightline

from sightline.devices.cuda.libcuda import driver_facts

pytestmark = pytest.mark.skipif(not driver_facts().reason, reason="this machine has a GPU")
REASON = "no NVIDIA driver on this machine (libcuda.so.1 is missing)"


def cpu_seconds() -> float:
    """What the commands called so far have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_a_gpu_that_is_not_there_is_one_message_before_anything_is_loaded(sightline: Sightline, device: str) -> None:
    begun = cpu_seconds()
    called = sightline("run", "street.yaml", "--device", device)
    told = cpu_seconds()
    sightline("check", "street.yaml")
    checked = cpu_seconds()

    assert called.returncode == 2
    assert called.stdout == ""
    assert called.stderr.splitlines() == [
        f"error: --device: device {device!r} cannot be used: {REASON}; use device: cpu or auto"
    ]
    assert told - begun < checked - told


def test_auto_runs_on_the_cpu_and_says_so_once(sightline: Sightline) -> None:
    called = sightline("run", "street.yaml", "--report", "report.json")

    assert called.returncode == 0
    assert called.stderr.count(REASON) == 1
    assert f"started on cpu (no GPU: {REASON}) with 1 stream" in called.stderr


def test_the_report_says_where_it_ran_and_why(sightline: Sightline) -> None:
    report = json.loads(sightline("run", "street.yaml", "--quiet", "--report", "-").stdout)

    assert (report["device"], report["device_reason"]) == ("cpu", f"no GPU: {REASON}")
    assert "transfers" not in report


def test_a_quiet_run_says_nothing_of_it(sightline: Sightline) -> None:
    assert sightline("run", "street.yaml", "--quiet").stderr == ""


def test_doctor_tells_every_part_of_a_gpu_and_what_it_lacks(sightline: Sightline) -> None:
    told = sightline("doctor").stdout

    assert f"cuda  not usable: {REASON}" in told
    assert f"auto  cpu, no GPU: {REASON}" in told
    for part in ("cuda-bindings", "NVRTC", "TensorRT", "NVDEC", "PyNvVideoCodec", "NVENC", "pycuda"):
        assert f"  {part} " in told
