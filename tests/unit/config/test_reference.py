"""What elements say of themselves, and the schema that editors use."""

from __future__ import annotations

from tests.unit.config.parts import Detect, Jsonl, Line, Lines, Media, Pattern, Track, registry

from sightline.config.schema import json_schema, page_of, purpose_of


def types_of(described: type) -> dict[str, str]:
    return {option.key: option.type for option in page_of(described).options}


def test_the_purpose_is_the_first_sentence() -> None:
    assert purpose_of(Detect) == "Finds objects with a model."


def test_the_text_is_what_follows_without_the_example() -> None:
    assert page_of(Detect).text == "Slower and better with a larger model."


def test_the_example_is_the_fenced_yaml() -> None:
    assert page_of(Detect).example == "- detect: {model: street.onnx, confidence: 0.4}"


def test_types_are_a_few_words_with_their_limits() -> None:
    assert types_of(Detect) == {
        "model": "file",
        "confidence": "number 0..1",
        "every": "integer >= 1",
        "fit": "letterbox | stretch",
        "labels": "file | list of string",
        "mean": "[number, number, number]",
        "id": "string",
        "streams": "list of string",
        "on_error": "stop | skip",
    }


def test_durations_and_files_are_called_so() -> None:
    assert types_of(Jsonl)["path"] == "output file"
    assert types_of(Jsonl)["stall_timeout"] == "duration"
    assert types_of(Media)["uri"] == "file or URL"


def test_options_inside_options_have_dotted_keys() -> None:
    assert {"lines.NAME.from", "lines.NAME.to", "lines.NAME.classes"} <= set(types_of(Lines))


def test_an_option_says_its_default_and_meaning() -> None:
    options = {option.key: option for option in page_of(Track).options}

    assert options["max_lost"].default == "1s"
    assert options["max_lost"].meaning == "How long a lost object is remembered."
    assert not options["max_lost"].required


def test_a_required_option_is_marked() -> None:
    assert {option.key for option in page_of(Pattern).options if option.required} == {"pattern"}


def test_options_of_all_elements_come_last() -> None:
    assert [option.key for option in page_of(Track).options] == ["max_lost", "draw_trail", "id", "streams", "on_error"]


def test_the_schema_names_every_element_with_its_options() -> None:
    schema = json_schema(registry())
    bare, mapping = schema["$defs"]["Step"]["anyOf"]

    assert set(mapping["properties"]) == {"detect", "jsonl", "lines", "track", "tee", "parallel"}
    assert bare["enum"] == ["track"]
    assert "confidence" in schema["$defs"][Detect.__name__]["properties"]


def test_the_schema_uses_the_keys_of_the_file() -> None:
    assert set(json_schema(registry())["$defs"][Line.__name__]["properties"]) == {"from", "to", "classes"}


def test_the_schema_leaves_out_what_can_not_be_loaded() -> None:
    schema = json_schema(registry(broken="no.such.module:Broken"))

    assert "broken" not in schema["$defs"]["Step"]["anyOf"][1]["properties"]


def test_every_reference_in_the_schema_leads_somewhere() -> None:
    schema = json_schema(registry())

    def references(node: object) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(value) for value in node.values()))
        return set().union(*map(references, node)) if isinstance(node, list) else set()

    assert {reference.rpartition("/")[2] for reference in references(schema)} <= set(schema["$defs"])
