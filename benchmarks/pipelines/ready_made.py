"""What people reach for when one loop is too slow: a thread, or a process, for each stream, with its own session."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any, Literal

import cv2
import numpy as np
import onnxruntime
from benchmarks.pipelines.job import Job, Outcome, Window
from benchmarks.pipelines.plain_parts import (
    Floats,
    PlainStream,
    captured,
    filtered_head,
    network_input,
    warm_up_tracker,
)

Engine = Literal["onnxruntime", "openvino"]
Session = Callable[[Floats], Floats]


def threads_onnxruntime(job: Job) -> Outcome:
    """A thread a stream, ONNX Runtime with one thread for each session."""
    return _threads(job, "onnxruntime")


def threads_openvino(job: Job) -> Outcome:
    """A thread a stream, OpenVINO with one thread for each session."""
    return _threads(job, "openvino")


def processes_onnxruntime(job: Job) -> Outcome:
    """A process a stream, ONNX Runtime with one thread each."""
    return _processes(job, "onnxruntime")


def processes_openvino(job: Job) -> Outcome:
    """A process a stream, OpenVINO with one thread each."""
    return _processes(job, "openvino")


def open_session(job: Job, engine: Engine, *, threads: int = 0) -> Session:
    """The model, warm; from the input to the map (85, 22, 22). 0 threads leaves their number to the engine."""
    session = _openvino(job, threads) if engine == "openvino" else _onnxruntime(job, threads)
    for _ in range(10):
        session(np.zeros((1, 3, 352, 352), np.float32))
    return session


def _onnxruntime(job: Job, threads: int) -> Session:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(job.model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda data: session.run(None, {name: data})[0][0]


def _openvino(job: Job, threads: int) -> Session:
    import openvino as ov

    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32"}
    if threads:
        options |= {"INFERENCE_NUM_THREADS": threads, "ENABLE_CPU_PINNING": False}
    request = ov.Core().compile_model(str(job.model), "CPU", options).create_infer_request()
    return lambda data: np.array(request.infer([data], share_inputs=True, share_outputs=True)[0][0])


def _follow(name: str, *, job: Job, session: Session) -> None:
    sink = PlainStream(name, job=job)
    for image, pts_ms in captured(job):
        size_wh = (image.shape[1], image.shape[0])
        found = filtered_head(session(network_input(image)), confidence=job.confidence, size_wh=size_wh)
        sink.finish(found, pts_ms=pts_ms, size_wh=size_wh)
    sink.close()


def _threads(job: Job, engine: Engine) -> Outcome:
    cv2.setNumThreads(1)
    sessions = [open_session(job, engine, threads=1) for _ in job.names]
    warm_up_tracker(job)
    window = Window()
    threads = [
        threading.Thread(target=_follow, args=(name,), kwargs={"job": job, "session": session})
        for name, session in zip(job.names, sessions, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return window.close()


def _processes(job: Job, engine: Engine) -> Outcome:
    context = multiprocessing.get_context("spawn")
    ready, ended = context.Barrier(job.streams + 1), context.SimpleQueue()
    processes = [context.Process(target=_process, args=(name, job, engine, ready, ended)) for name in job.names]
    for process in processes:
        process.start()
    ready.wait()
    window = Window()
    cpu_seconds = sum(ended.get() for _ in processes)
    wall_seconds = window.close().wall_seconds
    for process in processes:
        process.join()
    return Outcome(wall_seconds, cpu_seconds)


def _process(name: str, job: Job, engine: Engine, ready: Barrier, ended: Any) -> None:
    cv2.setNumThreads(1)
    session = open_session(job, engine, threads=1)
    warm_up_tracker(job)
    ready.wait()
    window = Window()
    _follow(name, job=job, session=session)
    ended.put(window.close().cpu_seconds)
