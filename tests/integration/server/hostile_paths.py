"""Names of outputs with which somebody would write outside the output folder, or over what is not a result.

`{outside}` is a folder beside the output folder. In the output folder, `links` is a link to it, `link.jsonl` one to a
file in it, and `chain` leads to it over a second link. The suffix of an option takes the place of `.jsonl`.
"""

from __future__ import annotations

WORKING: tuple[str, ...] = (
    "{outside}/a.jsonl",
    "links/a.jsonl",
    "links/{{stream}}/a.jsonl",
    "chain/a.jsonl",
    "sub/../links/a.jsonl",
)
"""What would write outside where nothing is refused: the tests see something."""

OUTSIDE: tuple[str, ...] = (
    *WORKING,
    "../outside/a.jsonl",
    "../../outside/a.jsonl",
    "sub/../../outside/a.jsonl",
    "./../outside/a.jsonl",
    "sub/./../../outside/a.jsonl",
    ".//..//outside/a.jsonl",
    "..\\outside\\a.jsonl",
    "%2e%2e/outside/a.jsonl",
    "%2e%2e%2foutside%2fa.jsonl",
    "..%c0%af../outside/a.jsonl",
    "..%252foutside/a.jsonl",
    "\u2025/outside/a.jsonl",
    "\uff0e\uff0e/outside/a.jsonl",
    "~/a.jsonl",
    "~root/a.jsonl",
    "$HOME/a.jsonl",
    "${{HOME}}/a.jsonl",
    "${{HOME:-/tmp}}/a.jsonl",
    "//server/share/a.jsonl",
    "/dev/shm/a.jsonl",
    "/proc/self/cwd/../outside/a.jsonl",
    "file://{outside}/a.jsonl",
    "link.jsonl",
    "a\0.jsonl",
    "a\n/../../outside/a.jsonl",
    "{{stream}}/../../../outside/a.jsonl",
    "{{stream}}/../../outside/{{stream}}.jsonl",
    "{{Stream}}/a.jsonl",
    "x" * 300 + ".jsonl",
    "x/" * 3000 + "a.jsonl",
    "con:a.jsonl",
    "a.jsonl:stream",
    "-",
    "",
    ".",
    "..",
    "a/",
)
"""Other places, in every way of writing them that some program reads."""

OTHER_FILES: tuple[str, ...] = (
    ".ssh/authorized_keys",
    ".bashrc",
    ".config/sightline.jsonl",
    "sub/.hidden.jsonl",
    "sitecustomize.py",
    "pipeline.yaml",
    "model.onnx",
    "a.jsonl.service",
    "a.so",
    "index.html",
)
"""Names below the output folder that no result has."""

PLAIN: tuple[str, ...] = (
    "a.jsonl",
    "out/{{stream}}.jsonl",
    "out/{{stream}}/a-1_b2.jsonl",
    "{{stream}}.jsonl",
)
"""What may be named."""

STREAMS: tuple[str, ...] = (
    *(
        "../outside/x",
        "..",
        ".",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "a\0b",
        "a\nb",
        "~",
        "-rf",
        "{{stream}}",
        "a b",
        "ü",
        "",
    ),
    *("x" * 65, "con:", "%2e%2e", ".hidden", "<script>alert(1)</script>", "${{HOME}}"),
)
"""Names of streams that the API may not give."""

SERVED: tuple[str, ...] = (
    *(
        ".",
        "..",
        "%2e",
        "%2e%2e",
        "...",
        "~",
        "-",
        "%00",
        "live.m3u8%00",
        "%0d%0aX:%201",
        "live.m3u8;x",
        "live.m3u8?x=..",
    ),
    *(
        "../secret.m4s",
        "../../outside/secret.m4s",
        "..%2f..%2foutside%2fsecret.m4s",
        "%2e%2e/%2e%2e/outside/secret.m4s",
    ),
    *("..%5c..%5coutside%5csecret.m4s", "..%252f..%252foutside%252fsecret.m4s", "%c0%ae%c0%ae/outside/secret.m4s"),
    *("{outside}/secret.m4s", "/{outside}/secret.m4s", "%2f{outside}%2fsecret.m4s", "file:{outside}/secret.m4s"),
    *("live-000900.m4s", "live-000901.m4s/../secret.m4s", "live-000901.m4s%2f..%2fsecret.m4s", "secret.m4s"),
    *("live.m3u8/", "live.m3u8/.", "live.m3u8/../secret.m4s", "LIVE.M3U8", "live-" + "0" * 300 + ".m4s", "x" * 5000),
)
"""What is asked for instead of a file of a playlist. In its folder, `secret.m4s` is no part of it, and
`live-000900.m4s` a link to a file outside.
"""
