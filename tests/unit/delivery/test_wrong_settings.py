"""Each wrong setting of a step that delivers is one error with file, line, key and what to do, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.config import load_description
from sightline.errors import ConfigurationError

CANARY = "canary-7041"
HEAD = "name: site\nsources: {gate: {pattern: counter, frames: 3}}\npipeline:\n"


def mistakes(folder: Path, steps: str) -> list[str]:
    """What is wrong with a pipeline of these steps, without the folder."""
    path = folder / "site.yaml"
    path.write_text(f"{HEAD}  - {steps}\n")
    (folder / "found.txt").write_text("1,-1,10,10,20,20,0.9,-1,-1,-1\n")
    with pytest.raises(ConfigurationError) as caught:
        load_description(path)
    return [line.replace(f"{folder}/", "") for line in str(caught.value).splitlines() if line.strip()]


def stored(url: str, options: str = "") -> str:
    """Steps that send images to an object store."""
    lines = "lines: {a: {from: [0, 0.5], to: [1, 0.5]}}"
    images = f"send: events, image: crop, image_store: {{url: '{url}', {options}}}"
    steps = ["replay: {path: found.txt, format: mot, label: car}", "track", lines]
    return "\n  - ".join([*steps, f"mqtt: {{url: 'mqtt://127.0.0.1', {images}}}"])


@pytest.mark.parametrize(
    ("step", "place", "said"),
    [
        ("mqtt: {url: 'mqtt://u:canary-7041@no-such-host.invalid'}", "mqtt.url", "there is no host no-such-host"),
        ("kafka: {url: 'kafka://u:canary-7041@no-such-host.invalid,127.0.0.1'}", "kafka.url", "there is no host"),
        ("mqtt: {url: 'redis://u:canary-7041@127.0.0.1'}", "mqtt.url", "begins with mqtt://"),
        ("mqtt: {url: 'u:canary-7041@127.0.0.1'}", "mqtt.url", "does not begin with SCHEME://"),
        ("amqp: {url: 'u:canary-7041@127.0.0.1'}", "amqp.url", "does not begin with SCHEME://"),
        ("redis: {url: 'u:canary-7041@127.0.0.1://x'}", "redis.url", "does not begin with SCHEME://"),
        ("mqtt: {url: 'mqtt://127.0.0.1', topic: 'a/{strem}'}", "mqtt.topic", "did you mean '{stream}'"),
        ("mqtt: {url: 'mqtt://u:${NOT_SET_7041}@127.0.0.1'}", "mqtt.url", "NOT_SET_7041 is not set: set it"),
        ("mqtt: {url: 'mqtt://127.0.0.1', send: things}", "mqtt.send", "must be frames, objects"),
        ("mqtt: {url: 'mqtt://127.0.0.1', send: tracks}", "mqtt", "put track before it"),
        ("mqtt: {url: 'mqtts://127.0.0.1', ca_file: no.pem}", "mqtt.ca_file", "there is no file no.pem"),
        ("webhook: {url: 'https://127.0.0.1', cert_file: no.pem}", "webhook.cert_file", "there is no file no.pem"),
        ("redis: {url: 'rediss://127.0.0.1', ca_file: no.pem}", "redis.ca_file", "there is no file no.pem"),
        ("kafka: {url: 'kafkas://127.0.0.1', ca_file: no.pem}", "kafka.ca_file", "there is no file no.pem"),
        ("nats: {url: 'tls://127.0.0.1', ca_file: no.pem}", "nats.ca_file", "there is no file no.pem"),
        ("amqp: {url: 'amqps://127.0.0.1', ca_file: no.pem}", "amqp.ca_file", "there is no file no.pem"),
        ("otlp: {url: 'grpc://u:canary-7041@127.0.0.1:4317'}", "otlp.url", "begins with http://, https://"),
        ("otlp: {url: 'http://u:canary-7041@127.0.0.1/{stream}'}", "otlp.url", "it takes no placeholders"),
        ("otlp: {url: 'http://127.0.0.1', headers: {Host: canary-7041}}", "otlp.headers", "is set by `otlp` itself"),
        ("otlp: {url: 'http://127.0.0.1', compression: zip}", "otlp.compression", "gzip"),
        ("otlp: {url: 'http://127.0.0.1', ca_file: no.pem}", "otlp.ca_file", "there is no file no.pem"),
        (
            "otlp: {url: 'http://u:canary-7041@127.0.0.1', headers: {Authorization: canary-7041}}",
            "otlp.headers",
            "not both",
        ),
        (stored("s4://site"), "image_store.url", "is written s3://BUCKET/PREFIX"),
        (stored("s3://key:canary-7041@site"), "image_store.url", "credentials are access_key and secret_key"),
        (stored("s3://Site"), "image_store.url", "lower-case letters"),
        (stored("s3://site/../x"), "image_store.url", "no parts that are empty, `.` or `..`"),
        (stored("s3://site", "key: '{stream}/{epoch}.jpg'"), "image_store.key", "put {frame} and {track} into it"),
        (stored("s3://site", "key: '{epoch}/{fram}{frame}{track}.jpg'"), "image_store.key", "did you mean '{frame}'"),
        (stored("s3://site", "key: '{epoch}{frame}{track}.png'"), "image_store.key", "must end in .jpg"),
        (stored("s3://site", "key: '../{epoch}{frame}{track}.jpg'"), "image_store.key", "`.` or `..`"),
        (
            stored("s3://site", "access_key: a, secret_key: b, endpoint: 'ftp://127.0.0.1'"),
            "image_store.endpoint",
            "such as https://HOST:PORT",
        ),
        (
            stored("s3://site", "access_key: a, secret_key: b, endpoint: 'http://no.invalid'"),
            "image_store.endpoint",
            "there is no host",
        ),
        (stored("s3://site", "endpoint: 'http://127.0.0.1'"), "image_store.access_key", "set AWS_ACCESS_KEY_ID and"),
        (stored("s3://site", "secret_key: canary-7041"), "image_store.access_key", "go together"),
        (
            "redis: {url: 'redis://127.0.0.1', id: a}\n  - mqtt: {url: 'mqtt://127.0.0.1', id: a}",
            "mqtt.id",
            "every step has its own",
        ),
    ],
)
def test_a_wrong_setting_is_one_error_at_its_place(tmp_path: Path, step: str, place: str, said: str) -> None:
    (found,) = mistakes(tmp_path, step)

    assert found.startswith("site.yaml:")
    assert f".{place}: " in found
    assert said in found
    assert CANARY not in found
