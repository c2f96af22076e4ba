"""What TensorRT logs becomes the reason of one message."""

from __future__ import annotations

import threading

import pytest

from sightline_plugins.engines.tensorrt_library import Messages, gist
from tests.fakes.tensorrt_names import ILogger, Severity


class Module:
    """What a logger needs of the library."""

    ILogger = ILogger


USAGE = """IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network has dynamic or shape inputs, but \
no optimization profile has been defined. In validate at /_src/optimizer/api/network.cpp:4023)"""
CUDA = """IRuntime::deserializeCudaEngine: Error Code 1: Cuda Runtime (In ScopedCudaStream at \
/_src/common/dispatch/cudaResources.cpp:25 (cudaError 35: CUDA driver version is insufficient))"""
INTERNAL = """[tacticSupply.cpp::getSupportedFormats::48] Error Code 2: Internal Error (Assertion !layerImpls.empty() \
failed. y has no runners that implement it In getSupportedFormats at /_src/builder/tacticSupply.cpp:48)"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (USAGE, "Network has dynamic or shape inputs, but no optimization profile has been defined"),
        (CUDA, "Cuda Runtime: cudaError 35: CUDA driver version is insufficient"),
        (INTERNAL, "Assertion !layerImpls.empty() failed. y has no runners that implement it"),
        ("ModelImporter.cpp:1303: Make sure output y has Int64 binding.", "Make sure output y has Int64 binding"),
        ("(deserializeOnnxModel): MODEL_DESERIALIZE_FAILED: no", "MODEL_DESERIALIZE_FAILED: no"),
        ("plain", "plain"),
    ],
)
def test_a_message_is_told_without_places_in_the_librarys_sources(text: str, expected: str) -> None:
    assert gist(text) == expected


def test_errors_are_the_reason_and_warnings_where_there_are_none() -> None:
    messages = Messages(Module)

    with messages.listening() as warned:
        messages.logger.log(Severity.WARNING, "one")
    with messages.listening() as failed:
        messages.logger.log(Severity.WARNING, "one")
        messages.logger.log(Severity.ERROR, "two")
        messages.logger.log(Severity.INTERNAL_ERROR, "two")

    assert (warned.reason, failed.reason) == ("one", "two")


def test_who_listens_in_another_thread_hears_only_the_librarys_own_threads() -> None:
    messages = Messages(Module)
    heard = dict[str, list[str]]()

    def act(name: str) -> None:
        with messages.listening() as one:
            barrier.wait()
            messages.logger.log(Severity.ERROR, name)
            barrier.wait()
            barrier.wait()
            heard[name] = list(one.errors)

    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=act, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    barrier.wait()
    barrier.wait()
    messages.logger.log(Severity.ERROR, "of the library")
    barrier.wait()
    for thread in threads:
        thread.join()

    assert heard == {"a": ["a", "of the library"], "b": ["b", "of the library"]}


def test_everything_is_passed_on_with_its_severity() -> None:
    messages, log = Messages(Module), list[tuple[str, str]]()

    with messages.listening(lambda severity, text: log.append((severity, text))):
        for severity in Severity:
            messages.logger.log(severity, "x")

    assert log == [("error", "x"), ("error", "x"), ("warning", "x"), ("info", "x"), ("verbose", "x")]
