"""Tables of deepstream-app's own sections: application, display, sources, muxer, drawing, tests."""

from __future__ import annotations

from sightline_plugins.deepstream_import.settings import Table, differs, ignores, refuses, takes
from sightline_plugins.deepstream_import.tables.common import ENABLE, EVERY_GPU, HARDWARE, MEMORY

APPLICATION: Table = {
    "enable-perf-measurement": ignores("progress and `--report` always have frames a second"),
    "perf-measurement-interval-sec": ignores("progress is shown all the time; `--report` has the figures"),
    "gie-kitti-output-dir": differs(
        "`kitti` with `layout: detection`: a file for each frame in a folder for each stream"
    ),
    "kitti-track-output-dir": differs(
        "`kitti` with `layout: tracking`: one file for each stream, not one for each frame"
    ),
    "reid-track-output-dir": refuses("put `jsonl: {path: ..., embeddings: true}` behind `embed` instead", off=("",)),
    "terminated-track-output-dir": refuses(
        "a `webhook` or broker with `send: tracks` sends each track at its end", off=("",)
    ),
    "shadow-track-output-dir": refuses(
        "boxes that are only predicted are not written to files of their own", off=("",)
    ),
    "global-gpu-id": takes("`device`, where it is not 0"),
}
TILED_DISPLAY: Table = {
    "enable": takes("`tile`: all streams in one video"),
    "rows": takes("`tile: {rows}`"),
    "columns": takes("`tile: {columns}`"),
    "width": takes("`tile: {size}`"),
    "height": takes("`tile: {size}`"),
    **EVERY_GPU,
    "compute-hw": HARDWARE,
    "buffer-pool-size": MEMORY,
    "show-source": ignores("all streams are shown; `video` with `streams` shows one"),
    "square-seq-grid": ignores("the grid is as square as fits unless `rows` and `columns` are given"),
}
SOURCE: Table = {
    "enable": ENABLE,
    "type": takes("the kind of the source"),
    "uri": takes("`uri`"),
    "num-sources": takes("that many streams"),
    "source-id": ignores("streams have names"),
    "camera-id": ignores("messages have the name of the stream"),
    "sensor-id": takes("the name of the stream"),
    "sensor-name": takes("the name of the stream"),
    "camera-width": takes("`size`"),
    "camera-height": takes("`size`"),
    "camera-fps-n": takes("`fps`"),
    "camera-fps-d": takes("`fps`"),
    "camera-v4l2-dev-node": takes("`uri: /dev/videoN`"),
    "camera-csi-sensor-id": refuses("CSI cameras need NVIDIA's driver: give the camera as RTSP or V4L2", off=()),
    "camera-csi-sensor-mode": refuses(
        "CSI cameras need NVIDIA's driver: give the camera as RTSP or V4L2", off=("", "0", "-1")
    ),
    "latency": ignores("packets are put in order as they come; `transport: tcp` needs no jitter buffer"),
    "drop-frame-interval": refuses(
        "set `max_fps` of the source to the camera's frame rate divided by this", off=("", "0", "1")
    ),
    "drop-on-latency": ignores("a live stream drops its oldest frame when the pipeline is slow, and counts it"),
    "intra-decode-enable": refuses("all frames are decoded; `max_fps` takes fewer of them"),
    "low-latency-decode": ignores("frames are passed on as soon as they are decoded"),
    "num-extra-surfaces": MEMORY,
    "num-decode-surfaces": MEMORY,
    "cudadec-memtype": MEMORY,
    "select-rtp-protocol": takes("`transport`"),
    "leaky": ignores("live streams drop their oldest frame, files wait"),
    "max-size-buffers": ignores("links between stages are bounded by the runtime"),
    "rtsp-reconnect-interval-sec": takes("`stall_timeout`"),
    "init-rtsp-reconnect-interval-sec": ignores("a camera that is not there is tried again, more and more rarely"),
    "rtsp-reconnect-attempts": differs("`max_reconnect_time`, in time and not in attempts", off=("-1", "")),
    "simulate-fps-interval-ms": refuses("`max_fps` and `realtime` set the pace of a source"),
    "smart-record": differs(
        "`record`: started by `pipeline.record`, or by events that you name with `on`", off=("0", "")
    ),
    "smart-rec-dir-path": takes("`record: {path}`"),
    "smart-rec-file-prefix": takes("`record: {path}`"),
    "smart-rec-cache": ignores("`record` keeps as many packets as `before` needs, up to `memory`"),
    "smart-rec-video-cache": ignores("`record` keeps as many packets as `before` needs, up to `memory`"),
    "smart-rec-container": takes("`record: {path}`: .mp4 or .mkv"),
    "smart-rec-start-time": takes("`record: {before}`"),
    "smart-rec-default-duration": takes("`record: {after}`"),
    "smart-rec-duration": takes("`record: {after}`"),
    "smart-rec-interval": refuses("recordings begin with events, not at intervals; `record: {segment}` records all"),
    "udp-buffer-size": ignores("the buffer of the receiver is chosen here"),
    "extract-sei-type5-data": refuses("user data in SEI messages are not read"),
    "sei-uuid": refuses("user data in SEI messages are not read", off=("",)),
    "audio-input-rate": ignores("audio is not processed"),
    "alsa-device": ignores("audio is not processed"),
    "video-format": ignores("frames stay in the format of the decoder"),
    **EVERY_GPU,
}
SOURCE_LIST: Table = {
    "enable": ENABLE,
    "num-source-bins": ignores("the list tells how many streams there are"),
    "list": takes("a stream for each"),
    "csv-file-path": takes("a stream for each line"),
    "sgie-batch-size": ignores("batches of objects are formed as they come"),
    "use-nvmultiurisrcbin": ignores("streams come and go in every pipeline (`sightline ctl`, the API)"),
    "max-batch-size": takes("`batch: {size}`"),
    "uri": takes("`uri`"),
    "sensor-id": takes("the name of the stream"),
    "sensor-name": takes("the name of the stream"),
    "sensor-id-list": takes("the names of the streams"),
    "sensor-name-list": takes("the names of the streams"),
    "http-ip": differs("`sightline run --listen` serves the API, with a token unless on loopback"),
    "http-port": differs("`sightline run --listen` serves the API, with a token unless on loopback"),
    "stream-name-display": ignores("`tile` writes the name of each stream"),
    "low-latency-mode": ignores("frames are passed on as soon as they are decoded"),
    "extract-sei-type5-data": refuses("user data in SEI messages are not read"),
}
STREAMMUX: Table = {
    "width": differs("frames keep their own size: boxes are in pixels of the source, not of the muxer"),
    "height": differs("frames keep their own size: boxes are in pixels of the source, not of the muxer"),
    "batch-size": takes("`batch: {size}`"),
    "batched-push-timeout": takes("`batch: {timeout}`"),
    "live-source": ignores("the source knows whether it is live"),
    "enable-padding": ignores("frames keep their own size, so nothing is padded before the network"),
    "buffer-pool-size": MEMORY,
    "sort-batch": ignores("frames of all streams come in turns, in a fixed order"),
    "cache-buffer": MEMORY,
    "sync-inputs": ignores("each frame keeps its own time"),
    "sync-inputs-ntp": ignores("each frame keeps its own time"),
    "max-latency": ignores("`batch: {timeout}` bounds how long a frame waits"),
    "attach-sys-ts-as-ntp": differs(
        "the time of a frame is that of the camera where it sends one, else of its arrival"
    ),
    "frame-num-reset-on-eos": ignores("frames count from 0 in each stream"),
    "frame-num-reset-on-stream-reset": ignores("frames count on when a camera returns"),
    "frame-duration": ignores("the time of a frame comes from its stream"),
    "async-process": ignores("decoding and batching run beside each other always"),
    "drop-pipeline-eos": ignores("`keep_running: true` keeps a pipeline without streams running"),
    "num-surfaces-per-frame": ignores("a frame has one surface"),
    "align-first-buffer": ignores("each frame keeps its own time"),
    "config-file-path": refuses(
        "the muxer's own file sets how batches of many rates are formed; `batch` does it here", off=("",)
    ),
    "compute-hw": HARDWARE,
    "interpolation-method": ignores("frames are not resized before the network"),
    **EVERY_GPU,
}
OSD: Table = {
    "enable": takes("`draw`"),
    "process-mode": HARDWARE,
    "border-width": takes("`draw: {thickness}`"),
    "border-color": refuses("`draw` gives each class or track a colour of its own", off=("",)),
    "text-size": takes("`draw: {text_size}`"),
    "text-color": ignores("text is drawn light on the colour of its object"),
    "text-bg-color": ignores("text is drawn light on the colour of its object"),
    "font": ignores("text has the font that is built in"),
    "show-clock": takes("`draw: {clock}`"),
    "clock-x-offset": ignores("the clock has its own place"),
    "clock-y-offset": ignores("the clock has its own place"),
    "clock-text-size": ignores("text has one size: `draw: {text_size}`"),
    "clock-color": ignores("the clock is white"),
    "clock-text-color": ignores("the clock is white"),
    "hw-blend-color-attr": HARDWARE,
    "display-text": takes("`draw: {labels}`"),
    "display-bbox": takes("`draw: {boxes}`"),
    "display-mask": takes("`draw: {masks}`"),
    **EVERY_GPU,
}
TESTS: Table = {
    "file-loop": takes("`loop: true` of files"),
    "pipeline-recreate-sec": refuses("the pipeline is not rebuilt at intervals; `sightline soak` tests a long run"),
}
IMAGE_SAVE: Table = {
    "enable": takes("`snapshots`"),
    "output-folder-path": takes("`snapshots: {path}`"),
    "save-img-cropped-obj": takes("`snapshots: {crop: true}`"),
    "save-img-full-frame": takes("`snapshots`"),
    "frame-to-skip-rules-path": refuses("`snapshots: {again, better, limit}` say how often", off=("",)),
    "second-to-skip-interval": takes("`snapshots: {again}`"),
    "min-confidence": refuses("`snapshots` saves all tracks; raise `confidence` of `detect`"),
    "max-confidence": refuses("`snapshots` saves all tracks, however sure", off=("", "1", "1.0")),
    "min-box-width": refuses("`snapshots` saves all tracks; `better: 2` saves each again when it is seen larger"),
    "min-box-height": refuses("`snapshots` saves all tracks; `better: 2` saves each again when it is seen larger"),
    **EVERY_GPU,
}
