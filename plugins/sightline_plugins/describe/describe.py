"""`describe`: ask a vision-language model about events, tracks or segments of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sightline.errors import MissingExtra
from sightline.graph import Capability, CheckContext, Element, OutputPath, Problem, Site
from sightline.graph.fields import checked_url, is_url, matching
from sightline.graph.references import Named
from sightline.media.time import Duration
from sightline_plugins.rules.names import RuleName
from sightline_plugins.sinks.files import path_problems

if TYPE_CHECKING:
    from sightline_plugins.describe.operator import Describer

About = Literal["events", "tracks", "segments", "alarms"]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Prompt = Annotated[str, Field(min_length=1, max_length=8000)]
_OWN_OPTIONS = frozenset(("model", "messages", "stream", "stream_options", "response_format", "n"))
_PACKAGES = ("openai", "jsonschema")


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class Describe(Element):
    """Ask a vision-language model about an event, a track or a segment, and report its answer as an event.

    Any server that speaks OpenAI's chat format with images is asked: vLLM, Ollama, llama.cpp, LM Studio, or a service.
    The request holds your prompt, what is known as JSON (stream, time, event, object, attributes) and JPEG images:
    of an event the frame, `frames` - 1 earlier ones and the crop of its object; of a track its best crop; of a segment
    `frames` frames, evenly spread.

    **Nothing waits for an answer.** It comes later, as an event `description` on the frame of its stream that passes
    then, with the `text`, and what it is `about`. Questions wait in a queue of `queue`; the most severe is asked first,
    the newest of these next, and the others are dropped. One request is under way at a time. All are
    counted in the report, and kept in the file `path` with their answers: also those that come after a
    stream has ended.

    **Budgets** count every request, those tried again as well: `per_minute`, `per_day` and, with prices,
    `money_per_day` (days of UTC). The file keeps the counts over restarts. Nothing is sent when it cannot be written.

    **Images that leave the machine** have to come from behind `privacy`: otherwise the configuration is refused, unless
    it says `unredacted: true`. A server on the loopback (`localhost`, `127.0.0.1`, `::1`) is asked without.

    **Alarms are verified** here: events of rules with `verify: true` that reach this step are held back. One that the
    model confirms goes out with the `answer` beside it, one that it refuses does not, and is counted and kept in the
    file. With files, the frame waits for the answer; on a live stream, the alarm comes on a later frame.

    An answer is text from outside: it is cut to `answer_limit` characters without control characters, checked against
    `answer_schema` where there is one, and executes and changes nothing.

    ```yaml
    - describe:
        url: http://127.0.0.1:11434/v1
        model: qwen2.5vl:7b
        path: out/descriptions.db
        about: segments
        prompt: What happens here? Answer in one sentence.
    ```
    """

    name: ClassVar[str] = "describe"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    url: Annotated[str, AfterValidator(checked_url), Field(repr=False)]
    """The server, with the path before `/chat/completions`: `http://127.0.0.1:11434/v1`."""
    model: Annotated[str, Field(min_length=1)]
    """The model's name on the server."""
    path: OutputPath
    """The file, an SQLite database, that keeps requests, answers and the counts of the day. One that an earlier run has
    written is continued."""
    api_key: Annotated[Annotated[str, Field(min_length=1)] | None, Field(repr=False)] = None
    """The key that the server asks for. It belongs into an environment variable: `${NAME}`. The client's own
    variables, such as `OPENAI_API_KEY`, are not used."""
    about: About = "events"
    """What is asked about: `events` of rules (each that happens or begins), `tracks` that have ended, or `segments`.
    With `alarms` nothing but alarms of rules with `verify`, which are asked about in any case."""
    prompt: Prompt = "Describe in one sentence what can be seen."
    """The question."""
    rule_prompts: Mapping[RuleName, Prompt] = {}
    """The question about events of a rule (`lines.gate`, or `lines.gate.in`) instead."""
    stream_prompts: Mapping[str, Prompt] = {}
    """The question about streams of that name or glob instead, where no prompt of a rule applies."""
    rules: Annotated[tuple[RuleName, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    """Rules whose events are asked about; all when not given."""
    classes: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    """Labels of the tracks that are asked about; all when not given."""
    least: Duration = 1_000_000_000
    """Tracks that were seen for a shorter time are not asked about."""
    track_timeout: Annotated[Duration, Field(gt=0)] = 2_000_000_000
    """After how long without a sighting a track has ended."""
    segment: Annotated[Duration, Field(ge=1_000_000_000)] = 10_000_000_000
    """The length of a segment."""
    frames: Annotated[int, Field(ge=1, le=16)] = 1
    """How many frames are sent of an event or a segment."""
    spacing: Annotated[Duration, Field(ge=100_000_000)] = 1_000_000_000
    """The time between frames of an event. With `frames` above 1, a frame is encoded so often on each stream."""
    crop: bool = True
    """Send the crop of the object that an event is about, too."""
    image_size: Annotated[int, Field(ge=32, le=4096)] = 640
    """The longer side of an image at most, in pixels."""
    image_quality: Annotated[int, Field(ge=1, le=100)] = 80
    """Quality of JPEG."""
    unredacted: bool = False
    """Send images that no `privacy` has redacted to another machine."""
    answer_schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer, an object. Its numbers, texts and booleans become `answer_NAME` in the event. Answers
    that do not keep it are counted as `invalid`, and no event comes."""
    answer_limit: Annotated[int, Field(ge=1, le=20_000)] = 2000
    """The most characters of an answer: text is cut, JSON is invalid."""
    answer_tokens: Annotated[int, Field(ge=1, le=100_000)] = 300
    """The most tokens of an answer (`max_tokens`)."""
    options: Mapping[str, str | int | float | bool] = {}
    """Further options of the request, such as {temperature: 0}. With `max_completion_tokens`, `max_tokens` is left
    out."""
    stream_answer: bool = False
    """Let the server send the answer piece by piece, for servers and proxies that close silent connections."""
    queue: Annotated[int, Field(ge=1, le=1000)] = 32
    """How many questions wait at most."""
    per_minute: Annotated[int, Field(ge=1, le=10_000)] = 10
    """The most requests in any 60 seconds; questions wait for the next one."""
    per_day: Annotated[int, Field(ge=1)] = 1000
    """The most requests a day; later questions are dropped."""
    money_per_day: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The most that a day may cost, in the currency of the prices."""
    input_price: Price | None = None
    """The price of a million tokens of requests."""
    output_price: Price | None = None
    """The price of a million tokens of answers."""
    timeout: Annotated[Duration, Field(gt=0)] = 60_000_000_000
    """How long a request may take in all."""
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    """How often a question is asked again after a lost connection, a timeout, 408, 409, 429 or 5xx."""
    expire: Annotated[Duration, Field(gt=0)] = 300_000_000_000
    """Questions that waited for longer are dropped."""
    finish: Duration = 10_000_000_000
    """How long questions are still asked when all streams, being files, have ended; with live streams, nothing is."""
    keep: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    """How many questions the file keeps."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.money_per_day is not None and (self.input_price is None or self.output_price is None):
            raise ValueError("money_per_day needs prices: give input_price and output_price too")
        if self.about != "events" and (self.rules is not None or self.rule_prompts):
            raise ValueError("rules and rule_prompts have a meaning with about: events only")
        if self.about != "tracks" and self.classes is not None:
            raise ValueError("classes have a meaning with about: tracks only")
        if own := sorted(_OWN_OPTIONS & set(self.options)):
            raise ValueError(f"options cannot set {', '.join(own)}: the step does")
        return self

    def required(self) -> frozenset[Capability]:
        """Events or tracks, if it asks about them."""
        wants = {"events": Capability.EVENTS, "tracks": Capability.TRACKS}.get(self.about)
        return frozenset() if wants is None else frozenset({wants})

    def is_for_alarms_only(self) -> bool:
        """Whether it asks about nothing but alarms."""
        return self.about == "alarms"

    def found_rules(self) -> frozenset[str]:
        """The rule of its events."""
        return frozenset({"description"})

    def wanted_labels(self) -> Named:
        """The labels in `classes`."""
        return [(("classes", number), label) for number, label in enumerate(self.classes or ())]

    def wanted_rules(self) -> Named:
        """The rules in `rules` and `rule_prompts`."""
        named: list[tuple[tuple[str | int, ...], str]] = [
            (("rules", number), name) for number, name in enumerate(self.rules or ())
        ]
        return [*named, *((("rule_prompts", name), name) for name in self.rule_prompts)]

    def images_leave_to(self) -> str | None:
        """The host, where it is another machine and that is not allowed for every image."""
        return None if self.unredacted or self.is_loopback() else self.host()

    def is_loopback(self) -> bool:
        """Whether the server is on this machine, by its address: names other than `localhost` are not looked up."""
        host = self.host().lower()
        try:
            return host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False

    def host(self) -> str:
        """The host of `url`."""
        return urlsplit(self.url).hostname or ""

    def serves_all_gpus(self) -> bool:
        """Whether one operator has all streams: its queue and its budgets are those of all."""
        return True

    def reason_against_processes(self) -> str:
        """One queue and one count of requests are of all streams."""
        return "its queue and its budgets are those of all streams"

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the address, the schema, the streams with prompts, the file, and that the client is installed."""
        parts = urlsplit(self.url) if is_url(self.url) else None
        if parts is None or parts.scheme.lower() not in ("http", "https"):
            yield Problem("`describe` takes a URL that begins with http:// or https://", ("url",))
        elif parts.username is not None or parts.query or parts.fragment:
            yield Problem("the address has no user, query or fragment; the key stands in `api_key`", ("url",))
        for pattern in self.stream_prompts:
            if not context.streams_may_come and not matching([pattern], context.streams):
                yield Problem(f"no stream is called {pattern!r}", ("stream_prompts", pattern))
        if self.path == "-" or "{" in self.path:
            yield Problem("the path is one file for all streams", ("path",))
        else:
            yield from path_problems(self, self.path, context=context, shareable=True)
        lacking = [name for name in _PACKAGES if find_spec(name) is None]
        if lacking:
            yield Problem(str(missing_extra(lacking[0])))
        elif self.answer_schema is not None:
            yield from self._schema_problems(self.answer_schema)

    def _schema_problems(self, schema: Mapping[str, Any]) -> Iterator[Problem]:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        try:
            Draft202012Validator.check_schema(json.loads(json.dumps(schema)))
        except (SchemaError, TypeError, ValueError) as error:
            reason = error.message if isinstance(error, SchemaError) else str(error)
            yield Problem(f"it is no JSON Schema: {reason}", ("answer_schema",))
            return
        if schema.get("type") != "object":
            yield Problem("the answer is an object: write type: object", ("answer_schema",))

    def build(self, site: Site) -> Describer:
        """Make the operator; its file is opened here. Raises MissingExtra, and OutputError for a file that is none."""
        for name in _PACKAGES:
            if find_spec(name) is None:
                raise missing_extra(name)
        from sightline_plugins.describe.operator import Describer

        return Describer(self, site)


def missing_extra(package: str) -> MissingExtra:
    """The error for a package that is not installed."""
    return MissingExtra(package, extra="describe", purpose="`describe`")
