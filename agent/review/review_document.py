"""Write what a review found of one mapping into the review document: plain JSON, redacted.

Pointers become lines of the file and words, records are cut to where they differ.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingot.agent.privacy import hide_secrets, named_secrets, redact, redact_value
from ingot.agent.reporting.mapping_words import common_length
from ingot.agent.reporting.preview import record_lines
from ingot.agent.review.changed_mappings import Document
from ingot.agent.review.diff.change_rules import Change
from ingot.agent.review.golden_rows import GoldenResult, golden_file
from ingot.agent.review.record_matching import Difference, Kind
from ingot.agent.review.replay import Replay, SampleRun, drift_json
from ingot.agent.review.revisions import Side
from ingot.agent.review.verdict import Case, Reason, change_place, worst_level
from ingot.converters.mapping.rows.executor import Record
from ingot.converters.rows import Json

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


@dataclass(kw_only=True, slots=True)
class _OpenContainer:
    """A list or an object that is being read; `key` is the present member."""

    pointer: str
    is_list: bool
    key: str | None = None
    number: int = 0

    def inside(self) -> str:
        """Return the pointer of the value that is being read."""
        step = str(self.number) if self.key is None else self.key
        return f"{self.pointer}/{step.replace('~', '~0').replace('/', '~1')}"

    def names_next(self) -> bool:
        """Check whether the next text is the key of a member."""
        return not self.is_list and self.key is None


def pointer_lines(text: str) -> dict[str, int]:
    """Map JSON Pointers of a JSON text to line numbers; a member has the line of its key."""
    found: dict[str, int] = {}
    around: list[_OpenContainer] = []
    for token, line in _tokens(text):
        inner = around[-1] if around else None
        if token in "]}":
            del around[-1:]
        elif token == ",":
            if inner:
                inner.key, inner.number = None, inner.number + 1
        elif inner and inner.names_next():
            inner.key = _unquote(token)
            found[inner.inside()] = line
        elif token != ":":
            pointer = inner.inside() if inner else ""
            found.setdefault(pointer, line)
            if token in "[{":
                around.append(_OpenContainer(pointer=pointer, is_list=token == "["))
    return found


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, done = 1, 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", done, found.start())
        done = found.start()
        yield found[0], line


def _unquote(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def nearest_line(lines: dict[str, int], pointer: str) -> int | None:
    """Return the line of a place, or of what is nearest around it."""
    while pointer and pointer not in lines:
        pointer = pointer.rpartition("/")[0]
    return lines.get(pointer)


def target_text(pointer: str) -> str:
    """Describe a pointer into a mapping: `messages 2 content`, `meta.language`."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    if len(steps) > 2 and steps[0] == "any_of":
        return f"alternative {_one_based(steps[1])}: {_steps_text(steps[2:])}"
    return _steps_text(steps)


def _steps_text(steps: list[str]) -> str:
    match steps:
        case ["messages", number, *rest]:
            return " ".join(["messages", _one_based(number), *rest[:1]])
        case ["where", number, *_]:
            return f"where {_one_based(number)}"
        case ["meta" | "source" as block, key, *_]:
            return f"{block}.{key}"
        case [first, *_]:
            return first
    return "the mapping"


def _one_based(number: str) -> str:
    return str(int(number) + 1) if number.isdigit() else number


def path_text(path: str) -> str:
    """Return a path as text; bytes that are not valid text are escaped."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


MOST_EXAMPLES = 3
_ORDER: tuple[Kind, ...] = ("lost", "changed", "gained")
_READ = 24_000  # characters of a text that are looked at
_MESSAGES = 8  # messages that are shown
_BEFORE = 80  # characters shown of what both texts begin with, where that is long


def example_differences(
    differences: Sequence[Difference], secrets: Mapping[str, str] | None = None
) -> list[dict[str, Json]]:
    """Return at most three differences as plain JSON, one of every kind first."""
    first = [next((one for one in differences if one.kind == kind), None) for kind in _ORDER]
    chosen = [one for one in first if one is not None]
    others = [one for one in differences if not any(one is other for other in chosen)]
    chosen += sorted(others, key=lambda one: _ORDER.index(one.kind))[: MOST_EXAMPLES - len(chosen)]
    ordered = sorted(chosen, key=lambda one: _ORDER.index(one.kind))
    return [_example_json(one, secrets or {}) for one in ordered]


def _example_json(one: Difference, secrets: Mapping[str, str]) -> dict[str, Json]:
    before, after = hide_secrets(one.old, secrets), hide_secrets(one.new, secrets)
    old, new = _record_pair_lines(before, after), _record_pair_lines(after, before)
    return {"kind": one.kind, "place": redact(path_text(one.place)), "old": old, "new": new}


def _record_pair_lines(record: Record | None, other: Record | None) -> list[list[str]] | None:
    if record is None:
        return None
    skipped = _count_same_messages(record, other)
    left_out = f"({skipped} message{'s' * (skipped != 1)} as in the other)"
    shown, beside = _shown_part(record, skipped), _shown_part(other, skipped) if other else None
    lines = record_lines(_narrow_texts(shown, beside) if beside else shown)
    return [*([["", left_out]] if skipped else []), *map(list, lines)]


def _count_same_messages(record: Record, other: Record | None) -> int:
    """Count the messages at the beginning that are left out, since both records have them."""
    pairs = zip(record.get("messages", []), (other or {}).get("messages", []), strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), 0)
    return max(0, same - 1) if same > 2 else 0


def _shown_part(record: Record, skipped: int) -> Record:
    """Redact the part of a record that is shown; what is only counted is emptied."""
    begun = {**record}
    for key in ("text", "system", "tools"):
        if isinstance(begun.get(key), str):
            begun[key] = begun[key][:_READ]
    messages = begun.pop("messages", None)
    shown: Record = redact_value(begun)
    if messages is not None:
        left = messages[skipped:]
        seen = [
            redact_value({**one, "content": one["content"][:_READ]}) for one in left[:_MESSAGES]
        ]
        shown["messages"] = [*seen, *({**one, "content": ""} for one in left[_MESSAGES:])]
    return shown


def _narrow_texts(record: Record, other: Record) -> Record:
    """Cut texts to where they begin to differ."""
    narrow: Record = {
        key: _cut_to_difference(record[key], other.get(key))
        for key in ("text", "system", "tools")
        if key in record
    }
    if "messages" not in record:
        return {**record, **narrow}
    beside = [*other.get("messages", []), *[None] * len(record["messages"])]
    messages = [
        {**one, "content": _cut_to_difference(one["content"], two["content"] if two else None)}
        for one, two in zip(record["messages"], beside, strict=False)
    ]
    return {**record, **narrow, "messages": messages}


def _cut_to_difference(text: Json, other: Json) -> Json:
    if not isinstance(text, str) or not isinstance(other, str) or text == other:
        return text
    start = common_length(text, other) - _BEFORE
    return text if start < _BEFORE else f"({start} characters as in the other) ...{text[start:]}"


_AT_LINE = re.compile(r"\bline (\d+) column")


def mapping_entry(
    case: Case, found: Sequence[Reason], base: Side, head: Side, command: str | None
) -> dict[str, Json]:
    """Return an element of `mappings` of the review document."""
    one = case.touched
    lines = pointer_lines(one.text)
    return {
        "path": path_text(head.shown(one.path)),
        "old_path": None if one.old_path is None else path_text(base.shown(one.old_path)),
        "status": one.status,
        "verdict": worst_level(reason.level for reason in found),
        "class": case.kind,
        "reasons": [_reason_json(reason, lines) for reason in found],
        "changes": [_change_json(change, lines) for change in case.changes],
        **_sample_json(case.replay),
        "golden": _golden_json(case.golden, head.shown(one.path)),
        "provenance": {"old": _provenance_json(one.old), "new": _provenance_json(one.new)},
        "reproduce": command,
    }


def _reason_json(one: Reason, lines: dict[str, int]) -> dict[str, Json]:
    """Write a reason; a text that is not JSON names its line itself."""
    stated = _AT_LINE.search(one.text) if one.rule == "broken" else None
    line = None if one.pointer is None else nearest_line(lines, one.pointer)
    if stated:
        line = int(stated[1])
    return {"level": one.level, "rule": one.rule, "text": path_text(one.text), "line": line}


def _change_json(one: Change, lines: dict[str, int]) -> dict[str, Json]:
    return {
        "target": redact(one.target),
        "rule": one.rule,
        "class": one.kind,
        "old": None if one.old is None else redact(one.old),
        "new": None if one.new is None else redact(one.new),
        "line": nearest_line(lines, change_place(one)),
    }


def _sample_json(ran: Replay) -> dict[str, Json]:
    matched = ran.matched
    first = ran.new or ran.old
    return {
        "sample": {
            "kind": ran.stand.kind,
            "place": path_text(ran.stand.place),
            "rows": first.trial.report.rows if first else 0,
            "sha256": ran.stand.sha256,
            "why": path_text(ran.stand.why),
        },
        "old": _side_json(ran.old),
        "new": _side_json(ran.new),
        "same": matched.same if matched else None,
        "of": matched.of if matched else None,
        "examples": example_differences(matched.differences, _row_secrets(ran)) if matched else [],
        "drift": drift_json(ran.drift),
    }


def _row_secrets(ran: Replay) -> dict[str, str]:
    """Return what is hidden in the sampled rows for their keys alone: records lack these keys."""
    return named_secrets(
        [row.value for side in (ran.old, ran.new) if side for row in side.trial.sample.rows]
    )


def _side_json(ran: SampleRun | None) -> dict[str, Json] | None:
    if ran is None:
        return None
    paths = [
        {
            "target": redact(target_text(one.pointer)),
            "path": redact(one.path),
            "resolved": one.resolved,
            "null": one.null,
            "missing": one.missing,
            "rows": one.resolved + one.null + one.missing,
        }
        for one in ran.trial.report.paths
    ]
    return {**ran.figures(), "paths": paths}


def _golden_json(found: GoldenResult | None, path: str) -> dict[str, Json] | None:
    if found is None:
        return None
    failed = [{"line": one.line, "why": one.why} for one in found.failed]
    return {
        "file": path_text(golden_file(Path(path)).as_posix()),
        "rows": found.rows,
        "failed": failed,
    }


def _provenance_json(document: Document | None) -> dict[str, Json] | None:
    """State who made a mapping; a value of a wrong type is not stated."""
    stated = (document or {}).get("provenance")
    if not isinstance(stated, dict) or not stated:
        return None
    repaired = stated.get("repaired")
    return {
        **{key: _text_or_none(stated.get(key)) for key in ("mapper", "model", "prompt_sha256")},
        "confidence": _number_or_none(stated.get("confidence")),
        "edited": stated["edited"] if isinstance(stated.get("edited"), bool) else None,
        "repaired": bool(repaired) if isinstance(repaired, bool | list) else None,
        "cost": _cost_json(stated.get("cost")),
    }


def _cost_json(stated: Json) -> dict[str, Json] | None:
    if not isinstance(stated, dict):
        return None
    return {
        key: _number_or_none(stated.get(key)) for key in ("calls", "tokens_in", "tokens_out", "usd")
    }


def _text_or_none(stated: Json) -> str | None:
    return redact(stated) if isinstance(stated, str) else None


def _number_or_none(stated: Json) -> float | int | None:
    known = isinstance(stated, int | float) and not isinstance(stated, bool)
    return stated if known else None
