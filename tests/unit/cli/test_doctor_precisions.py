"""`doctor` tells which precisions the processor computes natively, and by which instructions."""

from __future__ import annotations

import pytest

from sightline.cli.main import execute
from sightline.devices import processor


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"sse2", "amx_bf16", "avx512_vnni"}, "the CPU computes fp32, bf16 (amx_bf16), int8 (avx512_vnni)"),
        ({"asimd", "bf16", "i8mm"}, "the CPU computes fp32, bf16 (bf16), int8 (i8mm)"),
        ({"avx2"}, "the CPU computes fp32, no bf16, no int8"),
        (set(), "the CPU computes fp32; what else is unknown"),
    ],
)
def test_doctor_tells_what_the_processor_computes(
    flags: set[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processor, "processor_flags", lambda: frozenset(flags))

    code = execute(["doctor"])

    assert code == 0
    assert told in capsys.readouterr().out
