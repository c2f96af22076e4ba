"""Check that words which the project gave up do not come back: `python -m tools.vocabulary [--shrink]`.

Every rule has a name, a pattern and the word to use instead. Text rules apply to every tracked text file; name rules
apply to what Python modules define; path rules apply to the names of files and folders. `vocabulary-allowed.txt` beside
this file lists the files that still break a rule, one per line: `path: rule rule`. The list only shrinks: a new
offender is an error, and so is an entry that is no longer needed. `--shrink` removes such entries.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = Path(__file__).with_name("vocabulary-allowed.txt")
SUFFIXES = {".py", ".pyi", ".md", ".yaml", ".yml", ".toml", ".cu", ".h", ".html", ".js", ".css", ".txt", ".sh", ""}
HINTS = {
    "cannot": "not",
    "thinned": "thinn",
    "a-must": "must",
    "lets-go": "let",
    "in-the-place-of": "place",
    "ones-own": "own",
    "no-gpu": "gpu",
    "gpu-double": "double",
    "sure-confidence": "sure",
    "new-confidence": "new",
}
"""Letters of patterns whose rule is not named by the word itself."""
HOMES = {"no-gpu": "docs/benchmarks/gpu.md"}
"""Statements that are made in one file only."""
EXEMPT = {"tools/vocabulary.py", "tools/vocabulary-allowed.txt", "tests/unit/docs/test_vocabulary.py", "LICENSE"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A word that must not come back, and what to write instead."""

    name: str
    pattern: re.Pattern[str]
    instead: str

    @property
    def hint(self) -> str:
        """Letters without which the pattern cannot match, in lower case: a fast check."""
        return HINTS.get(self.name, self.name.removeprefix("name:").lower())


@dataclass(frozen=True, slots=True)
class Offence:
    """A place where a rule is broken."""

    path: str
    line: int
    rule: Rule
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text!r}: write {self.rule.instead}"


def _word(name: str, instead: str, pattern: str | None = None) -> Rule:
    """A word in any text, also as a part of an identifier (`max_pictures`, `PictureReader`)."""
    return Rule(name, re.compile(pattern or rf"(?<![a-z]){name}s?(?![a-z])", re.IGNORECASE), instead)


def _camel(name: str, instead: str) -> Rule:
    """A word as a part of a CamelCase or snake_case name, or by itself."""
    lower, upper = name.lower(), name.capitalize()
    return Rule(lower, re.compile(rf"(?:(?<![A-Za-z]){lower}|{upper})(?:s|ed|ing)?(?![a-z])"), instead)


TEXT_RULES = (
    Rule(
        "picture",
        re.compile(
            r"(?:(?<![A-Za-z])pictures?|Pictures?)(?![a-z])(?! parameter set|_parameter_set| order count| header)"
            r"|\bPICTURES?(?![a-z])"
        ),
        "frame, image, surface, crop or tensor",
    ),
    _camel("film", "video or clip"),
    _camel("likeness", "match score"),
    _camel("berth", "StreamSlot"),
    _camel("roster", "StreamManager"),
    _camel("ledger", "ElementStats"),
    _camel("workshop", "OperatorFactory"),
    _camel("alteration", "PendingChange"),
    _camel("doorbell", "condition variable"),
    _camel("easel", "CanvasFactory"),
    _camel("veil", "Redactor"),
    _word("cannot", "cannot", r"\bcan\s+not\b"),
    _word("told", "reported, logged, warned or raised", r"\b(?:is|are|was|were|be|been|gets?|being)\s+told\b"),
    _word("said", "stated, reported or given", r"\b(?:is|are|was|were|be|been|being)\s+said\b"),
    _word("thinned", "suppressed", r"\bthinn(?:ed|ing)\s+out\b"),
    _word("a-must", "required", r"\ba\s+must\b"),
    _word("lets-go", "releases", r"\blets?\s+go\s+of\b"),
    _word("in-the-place-of", "instead of", r"\bin\s+the\s+place\s+of\b"),
    _word("ones-own", "user-defined, your own", r"\bof (?:one's|his|her|the\s+user's)\s+own\b"),
    _word(
        "look",
        "inference request, or: runs on",
        r"\b(?:a|the|one|each|every|next|first|last|latest|two|all)\s+looks?\b",
    ),
    _word("no-gpu", "a link to docs/benchmarks/gpu.md", r"\bno\s+GPU\s+has\s+run\b"),
    _word("gpu-double", "fake", r"\bdoubles?\s+of\s+a\s+GPU\b|\bGPU doubles?\b|\bdouble_gpu\b|\bdouble gpu\b"),
    _word("sure-confidence", "high_threshold", r"(?<![a-z])sure[_-]confidence"),
    _word("new-confidence", "new_track_threshold", r"(?<![a-z])new[_-]confidence"),
    _word("agnostic", "class_agnostic", r"(?<!class[_-])(?<!class )\bagnostic\b"),
    _word("refresh", "reinfer_interval", r"\brefresh\s?[:=]\s?[\"']?\d|`refresh`|\brefresh: (?:Duration|int|float)"),
    _word("stall", "stall_timeout", r"\bstall\s?[:=]\s?[\"']?\d|\bstall: (?:Duration|int|float)"),
    _word("give_up", "max_reconnect_time", r"\bgive_up\b"),
)

DEFINED_NAMES: Mapping[str, str] = {
    "Look": "InferenceRequest",
    "LookResult": "InferenceResult",
    "Subject": "InferenceTarget",
    "Subjects": "TargetSelector",
    "Found": "Detections",
    "Finds": "postprocess result",
    "Reading": "DecodeContext, ReaderOptions, StreamCounters or TextVotes",
    "Readings": "DecodeContext, ReaderOptions, StreamCounters or TextVotes",
    "Moves": "GpuFailover",
    "Turn": "StreamSession",
    "Accounts": "RunStats",
    "Made": "BuiltOperator",
    "Patience": "StallDetector",
    "Portion": "AdaptiveBatchLimit",
    "Tolerance": "ErrorPolicy",
    "Condition": "StreamState",
    "Load": "OverloadMonitor",
    "Parcel": "WorkItem",
    "Gather": "Batcher",
    "Feed": "BatchIterator",
    "Coming": "DeferredCopy",
    "Twin": "CopyCache",
    "Sheet": "DrawContext",
    "Ink": "Color",
    "Shelf": "ClipStore",
    "House": "RtspServer",
    "Dialog": "RtspSession",
    "Making": "publisher source",
    "Passing": "passthrough",
    "Orders": "options",
    "Wish": "options",
    "Heard": "log capture",
    "Harm": "FaultInjector",
    "Damage": "corruption",
    "Sure": "thresholding",
    "CudaDevice": "CudaDevice",
    "StreamStats": "StreamStats",
    "ElementStats": "ElementStats",
    "LinkStats": "LinkStats",
    "look_all": "submit",
}
NAME_RULES = tuple(
    Rule(f"name:{name}", re.compile(rf"^[ \t]*(?:class|def|async def) ({name})\b", re.MULTILINE), instead)
    for name, instead in DEFINED_NAMES.items()
)

PATH_NAMES: Mapping[str, str] = {
    "looks": "inference",
    "subjects": "targets",
    "found": "detections",
    "findings": "detections",
    "likeness": "matching",
    "endings": "output op types",
    "sure": "thresholding",
    "told": "options",
    "sets": "detr",
    "grids": "dense",
    "priors": "anchor_based",
    "finished": "end_to_end",
    "easel": "canvas factory",
    "veil": "redactor",
    "sheet": "draw context",
    "ink": "color",
    "shelf": "clip store",
    "house": "server",
    "dialog": "session",
    "pictures": "frames or images",
    "serve": "server",
    "double": "fake",
    "doubles": "fakes",
}
PATH_RULES = {name: Rule(f"path:{name}", re.compile(re.escape(name)), instead) for name, instead in PATH_NAMES.items()}


def offences_in(path: str, text: str) -> Iterator[Offence]:
    """Yield every offence of a file, given its path from the repository's root and its text."""
    for part in (*PurePosixPath(path).parent.parts, PurePosixPath(path).name.partition(".")[0]):
        rule = PATH_RULES.get(part.removeprefix("test_"))
        if rule:
            yield Offence(path, 0, rule, part)
    lowered = text.lower()
    for rule in TEXT_RULES + NAME_RULES if path.endswith(".py") else TEXT_RULES:
        if rule.hint not in lowered or HOMES.get(rule.name) == path:
            continue
        for match in rule.pattern.finditer(text):
            yield Offence(path, text.count("\n", 0, match.start()) + 1, rule, " ".join(match[0].split()))


def offences(root: Path = ROOT) -> Iterator[Offence]:
    """Yield every offence of the repository's tracked and new text files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in sorted(set(listed.split("\0"))):
        file = root / name
        if name and name not in EXEMPT and file.suffix in SUFFIXES and file.is_file():
            yield from offences_in(name, file.read_text(errors="ignore"))


def allowed(text: str) -> dict[str, set[str]]:
    """Read the list of files that may break rules; several lines for one file add up."""
    entries: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        path, _, rules = line.partition(": ")
        if rules:
            entries[path] |= set(rules.split())
    return dict(entries)


def written(entries: Mapping[str, set[str]]) -> str:
    """Write the list as `allowed` reads it."""
    return "".join(f"{path}: {' '.join(sorted(rules))}\n" for path, rules in sorted(entries.items()) if rules)


def problems(found: Iterable[Offence], entries: Mapping[str, set[str]]) -> list[str]:
    """Return a line for every offence that is not allowed, and for every entry that is no longer needed."""
    needed: dict[str, set[str]] = defaultdict(set)
    lines = []
    for offence in found:
        needed[offence.path].add(offence.rule.name)
        if offence.rule.name not in entries.get(offence.path, ()):
            lines.append(str(offence))
    for path, rules in sorted(entries.items()):
        lines += [f"{path}: {rule} is no longer needed: --shrink" for rule in sorted(rules - needed[path])]
    return lines


def main(arguments: list[str]) -> int:
    """Print new offences and entries that are no longer needed; return the exit code."""
    found = list(offences())
    entries = allowed(ALLOWED.read_text()) if ALLOWED.exists() else {}
    if "--shrink" in arguments:
        broken = {(offence.path, offence.rule.name) for offence in found}
        entries = {path: {rule for rule in rules if (path, rule) in broken} for path, rules in entries.items()}
        ALLOWED.write_text(written(entries))
    lines = problems(found, entries)
    if lines:
        print(*lines, sep="\n")
        print("The glossary is docs/glossary.md; the rules are in tools/vocabulary.py.")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
