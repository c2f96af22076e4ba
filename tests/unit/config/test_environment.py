"""`${NAME}` in a configuration: what it becomes, and that it is never shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.config.conftest import Load

Problems = Callable[..., list[str]]

SECRET = "hunter2-very-secret"
HEAD = "sources: {gate: gate.mp4}\npipeline:\n"


def jsonl(load: Load, options: str, **environment: str) -> dict[str, object]:
    description = load(f"{HEAD}- jsonl:\n    path: a.jsonl\n    {options}\n", environment=environment)
    return description.steps[0].model_dump()


def test_a_reference_becomes_the_variable(load: Load) -> None:
    assert jsonl(load, "password: ${PW}", PW="abc")["password"] == "abc"


def test_a_reference_inside_a_text_is_replaced_in_its_place(load: Load) -> None:
    assert jsonl(load, "password: a${X}b${Y}c", X="1", Y="2")["password"] == "a1b2c"


def test_two_dollars_are_one(load: Load) -> None:
    assert jsonl(load, "password: $${PW}$$")["password"] == "${PW}$"


def test_one_dollar_alone_stays(load: Load) -> None:
    assert jsonl(load, "password: a$b")["password"] == "a$b"


def test_the_default_stands_in_for_what_is_not_set(load: Load) -> None:
    assert jsonl(load, "password: ${PW:-none}")["password"] == "none"


def test_the_default_stands_in_for_what_is_empty(load: Load) -> None:
    assert jsonl(load, "password: ${PW:-none}", PW="")["password"] == "none"


def test_the_default_may_be_empty(load: Load) -> None:
    assert jsonl(load, 'password: "${PW:-}"')["password"] == ""


def test_a_variable_of_digits_is_a_text_where_a_text_is_wanted(load: Load) -> None:
    assert jsonl(load, "password: ${PW}", PW="0012345")["password"] == "0012345"


def test_a_variable_of_digits_is_a_number_where_a_number_is_wanted(load: Load) -> None:
    description = load(
        "sources: {gate: gate.mp4}\nbatch:\n  size: ${SIZE:-4}\npipeline: [jsonl: a.jsonl]\n",
        environment={"SIZE": "12"},
    )

    assert description.batch.size == 12


def test_a_bare_number_from_a_variable_is_seconds(load: Load) -> None:
    assert jsonl(load, "stall_timeout: ${S}", S="2")["stall_timeout"] == "2s"


def test_an_unset_variable_is_told_with_its_place_and_nothing_else(problems: Problems) -> None:
    found = problems(f"{HEAD}- jsonl:\n    path: a.jsonl\n    stall_timeout: ${{STALL}}\n")

    assert "".join(found) == (
        "p.yaml:5:20: pipeline.0.jsonl.stall_timeout: the environment variable STALL is not set: "
        "set it, or write ${STALL:-default}"
    )


def test_a_variable_of_nearly_that_name_is_suggested(problems: Problems) -> None:
    found = problems(f"{HEAD}- jsonl: ${{YARD_PASWORD}}\n", environment={"YARD_PASSWORD": SECRET})

    assert found[0].endswith("the environment variable YARD_PASWORD is not set; did you mean 'YARD_PASSWORD'?")


def test_options_of_a_source_are_not_judged_before_its_uri_is_known(problems: Problems) -> None:
    found = problems('sources: {yard: {uri: "${CAMERA}", transport: tcp}}\npipeline: [draw: {loop: 3}]\n')

    assert ["CAMERA is not set" in one for one in found] == [True, False]
    assert "pipeline.0" in found[1]


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A:default}", "${A:-${B}}", "${A B}"])
def test_a_reference_that_is_none_is_told(text: str, problems: Problems) -> None:
    found = problems(f"{HEAD}- jsonl: 'x{text}'\n", environment={"A": "1", "B": "2"})

    assert "a reference is written ${NAME} or ${NAME:-default}, and a dollar sign itself $$" in found[0]


LEAKS = {
    "number": "- detect:\n    model: street.onnx\n    confidence: ${S}\n",
    "choice": "- detect:\n    model: street.onnx\n    fit: ${S}\n",
    "duration": "- jsonl:\n    path: a\n    stall_timeout: ${S}\n",
    "id": "- jsonl:\n    path: a\n    id: a b ${S}\n",
    "doubled id": "- jsonl: {path: a, id: '${S}'}\n- jsonl: {path: b, id: '${S}'}\n",
    "glob": "- jsonl: {path: a, streams: ['${S}']}\n",
    "missing file": "- detect: {model: '${S}.onnx'}\n",
    "missing folder": "- detect: {model: '${S}/a.onnx'}\n",
    "what the element says": "- detect: {model: 'gate.mp4'}\n- detect: {model: '${S}'}\n",
    "output": "- jsonl: '../${S}'\n",
    "two outputs": "- jsonl: '${S}x.j'\n- jsonl: '${S}x.j'\n",
    "element name": "- ${S}\n",
    "labels": "- detect:\n    model: street.onnx\n    mean: ${S}\n",
    "options": "- track: ${S}\n",
    "device": "- jsonl: a\ndevice: ${S}\n",
    "pipeline name": "- jsonl: a\nname: a b ${S}\n",
    "batch": "- jsonl: a\nbatch: ${S}\n",
    "batch timeout": "- jsonl: a\nbatch: {timeout: '${S}'}\n",
}


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize("value", [SECRET, "q7", 'it\'s "quoted" \\ here', "/etc//hidden/"])
def test_a_message_never_holds_the_value_of_a_variable(name: str, value: str, problems: Problems) -> None:
    found = "\n".join(problems(HEAD + LEAKS[name], environment={"S": value}))

    assert value not in found
    assert repr(value)[1:-1] not in found


@pytest.mark.parametrize("uri", ["gopher://u:${S}@h/a", "${S}", "${S}/gate.mp4", "gopher://h/a?x=${S}"])
def test_a_message_about_a_source_never_holds_the_value_of_a_variable(uri: str, problems: Problems) -> None:
    found = problems(f"sources: {{gate: '{uri}'}}\npipeline: [jsonl: a]\n", environment={"S": SECRET})

    assert SECRET not in "\n".join(found)
