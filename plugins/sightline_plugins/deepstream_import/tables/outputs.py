"""Tables of what leaves the pipeline: sinks, message converter, brokers, consumers; and of nvdsanalytics."""

from __future__ import annotations

from sightline_plugins.deepstream_import.settings import Table, differs, ignores, refuses, takes
from sightline_plugins.deepstream_import.tables.common import ENABLE, EVERY_GPU, HARDWARE

_WINDOW = ignores("there is no window: `publish: {web: true}` shows it in a browser")
_CONVERTER = takes("`sensors` of the step: what messages say of cameras and places")
_LIBRARY = refuses("compiled code is not run: `format` chooses among the schemas here", off=("",))
SINK: Table = {
    "enable": ENABLE,
    "type": takes("`video`, `publish`, or a broker"),
    "sync": takes("`realtime: true` of files where it is 1"),
    "qos": ignores("no frame is dropped to catch up, unless the stream is live"),
    "container": takes("`video: {path}`: .mp4 or .mkv"),
    "codec": takes("`video: {codec}`"),
    "enc-type": takes("`video: {encoder}`"),
    "bitrate": takes("`video: {bitrate}`"),
    "profile": ignores("the encoder chooses the profile"),
    "iframeinterval": differs("`video: {gop}`: a time, and not a number of frames"),
    "iframe-interval": differs("`video: {gop}`: a time, and not a number of frames"),
    "output-file": takes("`video: {path}`"),
    "sw-preset": ignores("`video: {preset}` is `superfast`"),
    "rtsp-port": differs("`publish: {rtsp}`: on loopback; other addresses need a `token`"),
    "rtsp-location": takes("`publish: {url}`"),
    "udp-port": ignores("the RTSP server needs no port between itself and the encoder"),
    "udp-buffer-size": ignores("the RTSP server needs no port between itself and the encoder"),
    "host": ignores("viewers connect to the RTSP server; it sends to nobody by itself"),
    "source-id": takes("`streams` of the step"),
    "link-to-demux": takes("the stream alone, not the wall"),
    "width": _WINDOW,
    "height": _WINDOW,
    "window-x": _WINDOW,
    "window-y": _WINDOW,
    "offset-x": _WINDOW,
    "offset-y": _WINDOW,
    "overlay-id": _WINDOW,
    "color-range": _WINDOW,
    "conn-id": _WINDOW,
    "plane-id": _WINDOW,
    "set-mode": _WINDOW,
    "compute-hw": HARDWARE,
    "copy-meta": ignores("objects travel with their frame"),
    "output-io-mode": HARDWARE,
    "msg-conv-config": _CONVERTER,
    "msg-conv-payload-type": takes("`format`"),
    "msg-conv-msg2p-lib": _LIBRARY,
    "msg-conv-comp-id": ignores("a step sends what reaches it"),
    "msg-conv-msg2p-new-api": ignores("messages hold all objects of a frame always"),
    "msg-conv-frame-interval": differs("`max_rate`: messages a second, and not one in so many frames"),
    "msg-conv-dummy-payload": differs("`empty: true` sends frames without objects"),
    "multiple-payloads": ignores("a message for each object is `send: objects`"),
    "msg-broker-proto-lib": takes("which broker it is"),
    "msg-broker-conn-str": takes("`url`"),
    "msg-broker-config": takes("read as well"),
    "msg-broker-comp-id": ignores("a step sends what reaches it"),
    "topic": takes("`topic`"),
    "new-api": ignores("a step keeps records until they are delivered"),
    "disable-msgconv": differs("`format: deepstream` makes the messages always", off=("0", "")),
    "debug-payload-dir": refuses("`jsonl` writes records to a file", off=("",)),
    **EVERY_GPU,
}
MESSAGE_CONVERTER: Table = {
    "enable": ENABLE,
    "msg-conv-config": _CONVERTER,
    "msg-conv-payload-type": takes("`format`"),
    "msg-conv-msg2p-lib": _LIBRARY,
    "msg-conv-comp-id": ignores("a step sends what reaches it"),
    "msg-conv-msg2p-new-api": ignores("messages hold all objects of a frame always"),
    "msg-conv-frame-interval": differs("`max_rate`: messages a second, and not one in so many frames"),
    "msg-conv-dummy-payload": differs("`empty: true` sends frames without objects"),
}
_CONSUMER = refuses("no messages are taken from brokers: the API and `sightline ctl` steer a pipeline", off=())
MESSAGE_CONSUMER: Table = {
    "enable": ENABLE,
    "proto-lib": _CONSUMER,
    "conn-str": _CONSUMER,
    "config-file": _CONSUMER,
    "subscribe-topic-list": _CONSUMER,
    "sensor-list-file": _CONSUMER,
}
BROKER: Table = {
    "username": differs("an environment variable holds it: credentials are not written"),
    "password": differs("an environment variable holds it: credentials are not written"),
    "hostname": takes("`url`"),
    "port": takes("`url`"),
    "exchange": takes("`exchange`"),
    "topic": takes("`routing_key`"),
    "amqp-framesize": ignores("the client chooses it"),
    "amqp-heartbeat": ignores("the client chooses it"),
    "partition-key": differs("`key: stream`: the stream's name is the key of a message"),
    "consumer-group-id": ignores("no messages are taken from brokers"),
    "proto-cfg": takes("`options`"),
    "producer-proto-cfg": takes("`options`"),
    "consumer-proto-cfg": ignores("no messages are taken from brokers"),
    "client-id": takes("`client_id`"),
    "share-connection": ignores("each step has a connection of its own"),
    "loop-timeout": ignores("the client waits for nothing at intervals"),
    "keep-alive": ignores("the client chooses it"),
    "enable-tls": takes("`url`: mqtts://"),
    "tls-cafile": takes("`ca_file`"),
    "tls-capath": refuses("a folder of certificates is not read: give the file, `ca_file`", off=("",)),
    "tls-certfile": takes("`cert_file`"),
    "tls-keyfile": takes("`key_file`"),
    "set-threaded": ignores("each destination has a thread"),
    "streamsize": takes("`max_length`"),
    "payloadkey": ignores("a record is one entry"),
    "consumergroup": ignores("no messages are taken from brokers"),
    "consumername": ignores("no messages are taken from brokers"),
    "connection_str": refuses("Azure IoT is no destination here: its MQTT endpoint is one", off=("",)),
    "custom_msg_properties": refuses("Azure IoT is no destination here: its MQTT endpoint is one", off=("",)),
}
SENSOR_DATA: Table = {
    "enable": ENABLE,
    "id": takes("`sensors: {id}`"),
    "type": takes("`sensors: {type}`"),
    "description": takes("`sensors: {description}`"),
    "location": takes("`sensors: {location}`"),
    "coordinate": takes("`sensors: {coordinate}`"),
}
PLACE_DATA: Table = {
    "enable": ENABLE,
    "id": takes("`sensors: {place}`"),
    "name": takes("`sensors: {place}`"),
    "type": takes("`sensors: {place}`"),
    "location": takes("`sensors: {place}`"),
    "coordinate": takes("`sensors: {place}`"),
    "place-sub-field*": refuses("messages have no parts of a place: `name` or `description` can hold it", off=("",)),
}
MODULE_DATA: Table = {
    "enable": ENABLE,
    "id": takes("`sensors: {analytics}`"),
    "description": takes("`sensors: {analytics}`"),
    "source": takes("`sensors: {analytics}`"),
    "version": takes("`sensors: {analytics}`"),
}
_FRAME_SIZE = takes("coordinates are fractions of the frame")
ANALYTICS_SECTION: Table = {
    "enable": ENABLE,
    "config-file": takes("read as well"),
    "config-file-path": takes("read as well"),
    "cfg-file-path": takes("read as well"),
    **EVERY_GPU,
}
ANALYTICS_PROPERTY: Table = {
    "enable": ENABLE,
    "config-width": _FRAME_SIZE,
    "config-height": _FRAME_SIZE,
    "osd-mode": takes("`draw: {rules}`"),
    "display-font-size": ignores("text has one size: `draw: {text_size}`"),
    "obj-cnt-win-in-ms": differs("counts are those of each frame; with `compat: deepstream` it is `window`"),
    "display-obj-cnt": ignores("`draw` shows what rules count"),
}
_CLASSES = takes("`classes`")
ROI: Table = {
    "enable": ENABLE,
    "roi-*": takes("`zones`, in fractions of the frame"),
    "inverse-roi": refuses("a zone counts what is inside: draw the rest of the frame as a zone"),
    "class-id": _CLASSES,
}
OVERCROWDING: Table = {
    "enable": ENABLE,
    "roi-*": takes("`crowd`, in fractions of the frame"),
    "object-threshold": takes("`at_least`"),
    "time-threshold": differs("`after`: DeepStream reads it and reports a crowd at once, without waiting"),
    "class-id": _CLASSES,
}
LINE_CROSSING: Table = {
    "enable": ENABLE,
    "line-crossing-*": differs(
        "`lines`: every crossing in both directions; DeepStream counts an object once, along the arrow, which is `in`"
    ),
    "extended": differs("a line ends at its ends; with `compat: deepstream` it goes on"),
    "mode": differs("a crossing counts when the box is over the line farther than it trembles"),
    "class-id": _CLASSES,
}
DIRECTION: Table = {
    "enable": ENABLE,
    "direction-*": differs("`direction`: judged by the way that the object went, once; DeepStream judges each frame"),
    "mode": ignores("DeepStream reads it and uses one mode"),
    "class-id": _CLASSES,
}
