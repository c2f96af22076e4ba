"""Mistakes in a configuration, with the place and the message of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Problems = Callable[..., list[str]]

GATE = "sources: {gate: gate.mp4}\n"
STEPS = "pipeline: [jsonl: o.jsonl]\n"
DETECT = "pipeline:\n- detect: {model: street.onnx}\n"
KEYS = (
    "name, device, sources, sources_file, keep_running, overwrite, batch, outbox, state, processes, telemetry, "
    "cluster, pipeline"
)
LINE = "- track\n- lines: {g: {from: [0, 0.5], to: [1, 0.5]}}\n"

YAML = {
    "empty file": ("", f"p.yaml: is empty: a configuration has the keys {KEYS}"),
    "a list at the top": ("- detect\n", "p.yaml: is no mapping: a configuration has the keys"),
    "tab": (f"{GATE}pipeline:\n\t- track\n", "p.yaml:3:1: a tab stands here: YAML is indented with spaces only"),
    "not UTF-8": (b"name: caf\xe9\n", "p.yaml:1:10: is not UTF-8 (byte 0xe9): save it as UTF-8"),
    "UTF-16": ("name: a\n".encode("utf-16"), "p.yaml:1:1: is UTF-16: save it as UTF-8"),
    "control character": ("name: a\x00b\n", "p.yaml:1:8: holds a character that YAML does not allow (U+0000)"),
    "unclosed quote": ("name: 'a\n", "p.yaml:2:1: the closing quote of a text is missing"),
    "unknown escape": ('name: "C:\\qa"\n', "put the text in '...' instead"),
    "unclosed bracket": ("sources: {gate: gate.mp4\npipeline: []\n", "(opened in line 1)"),
    "unclosed list": (
        "a: [1, 2\nb: 3\n",
        "p.yaml:2:2: a comma or the closing bracket of [ is missing (opened in line 1)",
    ),
    "two colons": ("name: a: b\n", "p.yaml:1:8: a colon is not expected here: check the indentation"),
    "bare @": ("name: @gate\n", "p.yaml:1:7: a text cannot start with '@': put it in quotes"),
    "bare braces": (f"{GATE}pipeline:\n- jsonl: {{stream}}.jsonl\n", "put texts that start with { or [ in quotes"),
    "bare reference in braces": (
        "sources: {gate: ${GATE}}\n",
        'inside { } or [ ] a reference stands in quotes: "${NAME}"',
    ),
    "bare dash": (
        "pipeline:\n- jsonl:\n    path: -\n",
        "p.yaml:3:11: a list entry is not expected here: check the indentation; standard input and output",
    ),
    "second document": (f"{GATE}---\n{STEPS}", "p.yaml:2:1: holds a second document (`---`)"),
    "unknown alias": (
        "a: *cam\n",
        "p.yaml:1:4: there is no &cam before *cam; a text that starts with * must stand in quotes",
    ),
    "alias to itself": ("a: &x [*x]\n", "p.yaml:1:8: *x stands inside &x: an alias cannot hold itself"),
}

SHAPE = {
    "doubled key": (
        f"{GATE}{STEPS}name: a\nname: b\n",
        "p.yaml:4:1: the key 'name' stands here again; it is already in line 3",
    ),
    "tag": (f"{GATE}{STEPS}name: !!int a\n", "p.yaml:3:7: the tag !!int is not used here: leave it out"),
    "list as a key": (f"{GATE}{STEPS}batch: {{[a]: 1}}\n", "p.yaml:3:9: a key must be a single word"),
    "merge of a text": (f"{GATE}{STEPS}batch: {{<<: a}}\n", "p.yaml:3:13: `<<` takes a mapping, or a list of mappings"),
    "unknown top key": (
        f"{GATE}{STEPS}nam: a\n",
        f"p.yaml:3:1: nam: there is no such key; did you mean 'name'? Allowed: {KEYS}",
    ),
    "bad name": (f"{GATE}{STEPS}name: a b\n", "p.yaml:3:7: name: may hold only letters, digits and . _ -, at most 64"),
    "unknown device": (
        f"{GATE}{STEPS}device: gpu\n",
        "p.yaml:3:9: device: device 'gpu' is unknown: use auto, cpu, cuda or cuda:N",
    ),
    "device not there": (f"{GATE}{STEPS}device: cuda:9\n", "p.yaml:3:9: device: device 'cuda:9' cannot be used"),
    "batch of no size": (f"{GATE}{STEPS}batch: {{size: 0}}\n", "p.yaml:3:15: batch.size: must be at least 1"),
    "batch of a text": (f"{GATE}{STEPS}batch: {{size: many}}\n", "p.yaml:3:15: batch.size: must be a whole number"),
    "batch no mapping": (f"{GATE}{STEPS}batch: 8\n", "p.yaml:3:8: batch: must be a mapping of options"),
    "no duration": (
        f"{GATE}{STEPS}batch: {{timeout: soon}}\n",
        'p.yaml:3:18: batch.timeout: \'soon\' is not a duration: write it like "40ms", "2s" or "5m"',
    ),
}

SOURCES = {
    "no sources": (STEPS, "sources: there are no sources: name at least one stream"),
    "sources as a list": (f"sources: [gate.mp4]\n{STEPS}", "p.yaml:1:10: sources: must give each stream a name"),
    "empty source": (f"sources: {{gate: }}\n{STEPS}", "p.yaml:1:11: sources.gate: must be a file, a URL, or a mapping"),
    "number as a source": (f"sources: {{gate: 5}}\n{STEPS}", "p.yaml:1:11: sources.gate: must be a file, a URL"),
    "missing file": (f"sources: {{gate: gaet.mp4}}\n{STEPS}", "gaet.mp4; did you mean 'gate.mp4'?"),
    "missing folder": (f"sources: {{gate: no/gate.mp4}}\n{STEPS}", "p.yaml:1:17: sources.gate.uri: there is no file"),
    "url for uri": (
        f"sources: {{gate: {{url: gate.mp4}}}}\n{STEPS}",
        "p.yaml:1:11: sources.gate: needs `uri:`, or one of `media:`, `pattern:`; did you mean 'uri'?",
    ),
    "uri no text": (
        f"sources: {{gate: {{uri: [a]}}}}\n{STEPS}",
        "p.yaml:1:23: sources.gate.uri: must be a file or a URL",
    ),
    "unreadable scheme": (
        f"sources: {{gate: 'gopher://user:pw@h/a'}}\n{STEPS}",
        "sources.gate: no installed kind of source reads 'gopher://***@h/a'; known kinds: media, pattern",
    ),
    "misspelt scheme": (
        f"sources: {{gate: 'patern://h/a'}}\n{STEPS}",
        "known kinds: media, pattern; did you mean 'pattern'?",
    ),
    "unknown source option": (
        f"sources: {{gate: {{uri: gate.mp4, lop: true}}}}\n{STEPS}",
        "p.yaml:1:33: sources.gate.lop: there is no such option; did you mean 'loop'? Allowed: uri, loop,",
    ),
    "wrong source option": (
        f"sources: {{gate: {{uri: gate.mp4, max_fps: 0}}}}\n{STEPS}",
        "p.yaml:1:42: sources.gate.max_fps: must be more than 0",
    ),
    "unknown pattern": (
        f"sources: {{p: {{pattern: bar}}}}\n{STEPS}",
        "p.yaml:1:24: sources.p.pattern: must be bars or noise; did you mean 'bars'?",
    ),
    "size of one": (
        f"sources: {{p: {{pattern: bars, size: [64]}}}}\n{STEPS}",
        "p.yaml:1:36: sources.p.size: must have 2 entries, not 1",
    ),
    "size of three": (
        f"sources: {{p: {{pattern: bars, size: [1, 2, 3]}}}}\n{STEPS}",
        "sources.p.size: must have at most 2 entries, not 3",
    ),
    "stream name": (f"sources: {{a/b: gate.mp4}}\n{STEPS}", "p.yaml:1:11: sources.a/b: a stream's name holds letters"),
    "two names, one file name": (
        f"sources: {{'a b': gate.mp4, a_b: gate.mp4}}\n{STEPS}",
        "p.yaml:1:28: sources.a_b: means the same file name 'a_b' as the stream 'a b': rename one of them",
    ),
}

STEPS_AND_OPTIONS = {
    "no pipeline": (GATE, "pipeline: there are no steps: list at least one"),
    "empty pipeline": (f"{GATE}pipeline: []\n", "p.yaml:2:1: pipeline: there are no steps"),
    "pipeline no list": (f"{GATE}pipeline: {{detect: 1}}\n", "p.yaml:2:11: pipeline: must be a list of steps"),
    "a number as a step": (f"{GATE}pipeline: [5]\n", "p.yaml:2:12: pipeline.0: a step is the name of an element"),
    "unknown element": (
        f"{GATE}pipeline: [detct: {{}}]\n",
        "p.yaml:2:12: pipeline.0.detct: there is no element 'detct'; did you mean 'detect'?",
    ),
    "element like nothing": (f"{GATE}pipeline: [qqqq]\n", "there is no element 'qqqq'; known: broken, detect, jsonl"),
    "element that cannot be loaded": (
        f"{GATE}pipeline: [broken]\n",
        "'broken' of package unknown cannot be loaded: No module named",
    ),
    "entry point to no element": (f"{GATE}pipeline: [nothing]\n", "'nothing' of package unknown is no Element"),
    "entry point of another name": (f"{GATE}pipeline: [other]\n", "calls itself 'track', its entry point says 'other'"),
    "options not indented": (
        f"{GATE}pipeline:\n- detect:\n  model: street.onnx\n",
        "p.yaml:4:3: pipeline.0.model: stands beside 'detect': indent it further",
    ),
    "two steps in one entry": (
        f"{GATE}pipeline:\n- detect: {{model: street.onnx}}\n  track:\n",
        "p.yaml:4:3: pipeline.0: holds several steps in one entry of the list: start each with `- `",
    ),
    "missing option": (
        f"{GATE}pipeline: [detect]\n",
        "p.yaml:2:12: pipeline.0.detect.model: is required: the model file",
    ),
    "text for options": (f"{GATE}pipeline: [detect: a]\n", "p.yaml:2:20: pipeline.0.detect: takes options"),
    "unknown option": (
        f"{GATE}pipeline:\n- detect: {{model: street.onnx, confidense: 1}}\n",
        "p.yaml:3:32: pipeline.0.detect.confidense: there is no such option; did you mean 'confidence'? Allowed:",
    ),
    "above the limit": (
        f"{GATE}pipeline: [detect: {{model: street.onnx, confidence: 1.3}}]\n",
        "p.yaml:2:53: pipeline.0.detect.confidence: must be at most 1",
    ),
    "not a choice": (
        f"{GATE}pipeline: [detect: {{model: street.onnx, fit: leterbox}}]\n",
        "detect.fit: must be letterbox or stretch; did you mean 'letterbox'?",
    ),
    "no number in a list": (
        f"{GATE}pipeline: [detect: {{model: street.onnx, mean: [1, 2, x]}}]\n",
        "p.yaml:2:54: pipeline.0.detect.mean.2: must be a number",
    ),
    "neither of two kinds": (
        f"{GATE}pipeline: [detect: {{model: street.onnx, labels: 5}}]\n",
        "detect.labels: must be a list, or the name of a file",
    ),
    "no list": (f"{GATE}pipeline: [detect: {{model: street.onnx, streams: gate}}]\n", "detect.streams: must be a list"),
    "yes is no truth": (
        f"{GATE}{DETECT}- track: {{draw_trail: maybe}}\n",
        "p.yaml:4:23: pipeline.1.track.draw_trail: must be true or false",
    ),
    "number for a text": (
        f"{GATE}pipeline: [jsonl: {{path: a.jsonl, password: 12}}]\n",
        'password: must be a text: put it in quotes, "12"',
    ),
    "bad id": (
        f"{GATE}pipeline: [jsonl: {{path: a.jsonl, id: a b}}]\n",
        "jsonl.id: may hold only letters, digits and _ -, at most 64",
    ),
    "missing model": (f"{GATE}pipeline: [detect: {{model: stret.onnx}}]\n", "stret.onnx; did you mean 'street.onnx'?"),
    "what the element itself finds": (
        f"{GATE}pipeline: [detect: {{model: gate.mp4}}]\n",
        "p.yaml:2:28: pipeline.0.detect.model: gate.mp4 is no ONNX model",
    ),
    "nested unknown option": (
        f"{GATE}{DETECT}- track\n- lines: {{g: {{from: [0, 0], to: [1, 1], class: [car]}}}}\n",
        "p.yaml:5:41: pipeline.2.lines.g.class: there is no such option; did you mean 'classes'? Allowed: from,",
    ),
    "nested missing option": (
        f"{GATE}{DETECT}- track\n- lines: {{g: {{to: [1, 1]}}}}\n",
        "p.yaml:5:11: pipeline.2.lines.g.from: is required: one end",
    ),
    "nested limit": (
        f"{GATE}{DETECT}- track\n- lines: {{g: {{from: [0, 0], to: [1, 7]}}}}\n",
        "p.yaml:5:37: pipeline.2.lines.g.to.1: must be at most 1",
    ),
}

WHOLE = {
    "doubled id": (
        f"{GATE}pipeline: [jsonl: {{path: a.jsonl, id: a}}, jsonl: {{path: b.jsonl, id: a}}]\n",
        "p.yaml:2:70: pipeline.1.jsonl.id: the id 'a' is already that of pipeline.0.jsonl: every step has its own",
    ),
    "id that another step gets": (
        f"{GATE}pipeline: [jsonl: {{path: a.jsonl, id: jsonl-2}}, jsonl: {{path: b.jsonl}}]\n",
        "pipeline.1.jsonl: the id 'jsonl-2' is already that of pipeline.0.jsonl",
    ),
    "glob of no stream": (
        f"{GATE}pipeline: [jsonl: {{path: a.jsonl, streams: [gat, 'x*']}}]\n",
        "streams.0: no stream matches 'gat'; did you mean 'gate'?",
    ),
    "no streams": (
        f"{GATE}pipeline: [jsonl: {{path: a.jsonl, streams: []}}]\n",
        "streams: is empty, so that the step works on no stream",
    ),
    "tracker without detector": (
        f"{GATE}pipeline: [track]\n",
        "p.yaml:2:12: pipeline.0.track: track needs objects, and no step before it gives any: put detect before it",
    ),
    "detector after the tracker": (
        f"{GATE}pipeline:\n- track\n- detect: {{model: street.onnx}}\n",
        "p.yaml:3:3: pipeline.0.track: track needs objects",
    ),
    "lines without tracker": (
        f"{GATE}{DETECT}- lines: {{g: {{from: [0, 0], to: [1, 1]}}}}\n",
        "pipeline.1.lines: lines needs tracks, and no step before it gives any: put track before it",
    ),
    "needs inside a branch": (
        f"{GATE}pipeline:\n- tee: {{a: [track]}}\n",
        "p.yaml:3:13: pipeline.0.tee.a.0.track: track needs objects",
    ),
    "what a tee's branch finds stays there": (
        f"{GATE}pipeline:\n- tee: {{a: [detect: {{model: street.onnx}}]}}\n- track\n",
        "p.yaml:4:3: pipeline.1.track: track needs objects",
    ),
    "found on another stream only": (
        f"sources: {{gate: gate.mp4, yard: gate.mp4}}\n{DETECT.replace('}', ', streams: [gate]}')}- track\n",
        "no step before it gives any on the stream 'yard'",
    ),
    "branches as a list": (f"{GATE}pipeline: [tee: [track]]\n", "p.yaml:2:17: pipeline.0.tee: takes branches by name"),
    "empty branch": (
        f"{GATE}pipeline: [parallel: {{a: [], b: [jsonl: o.jsonl]}}]\n",
        "p.yaml:2:23: pipeline.0.parallel.a: this branch has no steps",
    ),
    "two writers of one file": (
        f"{GATE}pipeline: [jsonl: a.jsonl, jsonl: a.jsonl]\n",
        "a.jsonl cannot be written: pipeline.0.jsonl writes it too",
    ),
    "writer over a source": (
        f"{GATE}pipeline: [jsonl: ../gate.mp4]\n",
        "pipeline.0.jsonl.path: output '../gate.mp4' leaves the output folder",
    ),
    "output outside its folder": (
        f"{GATE}pipeline: [jsonl: ../a.jsonl]\n",
        "give a path inside it, or an absolute one",
    ),
}

ALL = {**YAML, **SHAPE, **SOURCES, **STEPS_AND_OPTIONS, **WHOLE}


@pytest.mark.parametrize("name", ALL)
def test_a_mistake_is_told_with_its_place_and_the_remedy(name: str, problems: Problems) -> None:
    text, told = ALL[name]

    found = problems(text)

    assert any(told in line for line in found), "\n".join(found)


@pytest.mark.parametrize("name", [*SHAPE, *SOURCES, *STEPS_AND_OPTIONS])
def test_one_mistake_is_told_once_and_brings_no_others(name: str, problems: Problems) -> None:
    text, _ = ALL[name]

    assert len(problems(text)) == 1


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(problems: Problems) -> None:
    text = (
        "nam: a\n"
        "device: gpu\n"
        "sources:\n  gate: gaet.mp4\n  p: {pattern: bar}\n"
        "batch: {size: 0}\n"
        "pipeline:\n- detct\n- track: {max_lost: x}\n- lines: {g: {to: [0, 9]}}\n- jsonl: ../x\n"
    )

    places = [line.split(": ")[:2] for line in problems(text)]

    assert places == [
        ["p.yaml:1:1", "nam"],
        ["p.yaml:2:9", "device"],
        ["p.yaml:4:9", "sources.gate.uri"],
        ["p.yaml:5:16", "sources.p.pattern"],
        ["p.yaml:6:15", "batch.size"],
        ["p.yaml:8:3", "pipeline.0.detct"],
        ["p.yaml:9:21", "pipeline.1.track.max_lost"],
        ["p.yaml:10:11", "pipeline.2.lines.g.from"],
        ["p.yaml:10:23", "pipeline.2.lines.g.to.1"],
        ["p.yaml:11:10", "pipeline.3.jsonl.path"],
    ]


def test_a_missing_file_is_one_line(problems: Problems, folder: object) -> None:
    from sightline.config import InvalidConfiguration, load_description

    with pytest.raises(InvalidConfiguration, match=r"^nowhere\.yaml: cannot be read: there is no such file$"):
        load_description("nowhere.yaml")


def test_a_folder_is_no_configuration(folder: object) -> None:
    from sightline.config import InvalidConfiguration, load_description

    with pytest.raises(InvalidConfiguration, match=r"^\.: cannot be read: Is a directory$"):
        load_description(".")


@pytest.mark.parametrize("name", ALL)
def test_no_message_speaks_in_the_words_of_a_library(name: str, problems: Problems) -> None:
    told = "\n".join(problems(ALL[name][0])).lower()

    for word in ("pydantic", "input should", "value error", "validation error", "ruamel", "https://"):
        assert word not in told


def test_an_option_has_the_spelling_of_the_documentation_only(problems: Problems) -> None:
    line = "- track\n- lines: {g: {start: [0, 0.5], to: [1, 0.5]}}\n"  # `start` is the name of the field in Python

    assert [one.partition(": ")[2] for one in problems(f"{GATE}{DETECT}{line}")] == [
        "pipeline.2.lines.g.from: is required: one end",
        "pipeline.2.lines.g.start: there is no such option. Allowed: from, to, classes",
    ]
