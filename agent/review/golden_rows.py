"""Golden rows: raw rows beside a mapping with the records that it has to make of them.

`foo.golden.jsonl` beside `foo.json` holds an object per line: `{"row": ..., "records": [...]}` or
`{"row": ..., "reject": "reason"}`; `rows` takes the place of `row` if the mapping groups, `key` is
what `~` gives, `file` the name of the file. docs/pinned-samples.md is the reference.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingot.agent.privacy import Redactor, Safe, redact
from ingot.agent.reporting.mapping_words import common_length
from ingot.converters.errors import SourceError, count_text, translate_read_errors
from ingot.converters.mapping.bind import bind_tree
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.conditions import same_json
from ingot.converters.mapping.rows.executor import REASONS, RowExecutor, UnifiedBatch
from ingot.converters.mapping.rows.group import group_rows
from ingot.converters.rows import Batch, Json, limit_looks
from ingot.converters.sources.formats.row_chunks import (
    BrokenRow,
    JsonTextError,
    parse_fields,
    parse_json,
    to_bad_row,
)

_ENDING = ".golden.jsonl"
_KEYS = frozenset({"row", "rows", "key", "file", "records", "reject"})
_MOST_BYTES = 64 << 20
_SHOWN = 60  # characters of a value that are shown
_FREE = ("meta", "loss_mask")  # what an expected record need not state
_NOTHING = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenFailure:
    """A golden row that fails: its line, from 1, and why, in redacted words."""

    line: int
    why: Safe


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenResult:
    """The result of a file of golden rows: how many there are, and which fail."""

    file: str
    rows: int
    failed: tuple[GoldenFailure, ...]


class _MismatchError(Exception):
    """The records differ; the message says how."""


def golden_file(mapping: Path) -> Path:
    """Return where the golden rows of a mapping lie: `foo.json` has `foo.golden.jsonl`."""
    return mapping.with_name(f"{mapping.name.removesuffix('.json')}{_ENDING}")


def run_golden(mapping: Mapping, file: Path, *, source_name: str) -> GoldenResult:
    """Run a mapping on its golden rows.

    A mapping of version 1 is bound to the golden rows themselves. A line that is not a golden row
    fails like one whose records differ.
    """
    lines = list(_numbered_lines(file))
    if not lines:
        raise SourceError(str(file), "it holds no golden row", "a line holds a row and its records")
    golden = [(number, _parse_golden(data)) for number, data in lines]
    fields = bind_tree(mapping, where=str(file)).source.json_fields or ()
    rows = [row for _, one in golden if isinstance(one, dict) for row in _parse_rows(one, fields)]
    redactor = Redactor("redacted", rows)
    with limit_looks():
        readable = [row for row in rows if type(row) is not BrokenRow]
        mapping = bind_tree(mapping, readable, where=str(file))
        unifier = RowExecutor(mapping, source_name=source_name)
        failed = [
            GoldenFailure(line=number, why=redactor.text(reason))
            for number, one in golden
            if (reason := _failure_reason(one, fields, mapping, unifier))
        ]
    return GoldenResult(file=str(file), rows=len(golden), failed=tuple(failed))


def _numbered_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number, from 1, and the bytes of every line that is not blank."""
    with translate_read_errors(str(file)):
        if not file.is_file():
            hint = "a line of it holds a row and its records"
            raise SourceError(str(file), "there are no golden rows", hint)
        if file.stat().st_size > _MOST_BYTES:
            problem = f"more than {_MOST_BYTES >> 20} MiB of golden rows"
            raise SourceError(str(file), problem, "a golden row is an example, not the data")
        data = file.read_bytes().removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _parse_golden(data: bytes) -> dict[str, Json] | str:
    """Return a golden row, or what is wrong with the line."""
    try:
        golden = parse_json(data)
    except JsonTextError as error:
        return f"not valid JSON: {error}"
    if twice := _duplicate_key(data):
        return f"the key {twice!r} is duplicated in an object"
    if not isinstance(golden, dict):
        return "not an object"
    if unknown := sorted(set(golden) - _KEYS):
        return f"unknown key {', '.join(map(repr, unknown))}"
    if ("row" in golden) == ("rows" in golden):
        return "expected one of the keys row and rows"
    if ("records" in golden) == ("reject" in golden):
        return "expected one of the keys records and reject"
    return _mistyped_key(golden) or golden


def _duplicate_key(data: bytes) -> str | None:
    """Return a key that an object has more than once: one of its values would not count."""
    duplicates: list[str] = []

    def watch(pairs: list[tuple[str, Json]]) -> None:
        duplicates.extend(
            key for key, count in Counter(key for key, _ in pairs).items() if count > 1
        )

    json.loads(data, object_pairs_hook=watch)
    return duplicates[0] if duplicates else None


def _mistyped_key(golden: dict[str, Json]) -> str:
    """Say which key of a golden row has a wrong value, "" if none has."""
    if not isinstance(golden.get("rows", []), list):
        return "rows: expected a list"
    records = golden.get("records", [])
    if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
        return "records: expected a list of objects"
    for name in ("key", "file"):
        if not isinstance(golden.get(name, ""), str):
            return f"{name}: expected text"
    if "reject" in golden and golden["reject"] not in REASONS:
        return f"reject: expected one of {', '.join(REASONS)}"
    return ""


def _parse_rows(golden: dict[str, Json], fields: Sequence[str]) -> list[Json]:
    """Return the raw rows as a reader would, `BrokenRow` if a field is not JSON."""
    rows = golden["rows"] if "rows" in golden else [golden["row"]]
    return [parse_fields(row, fields) for row in rows]


def _failure_reason(
    golden: dict[str, Json] | str, fields: Sequence[str], mapping: Mapping, unifier: RowExecutor
) -> str:
    """Say why a golden row fails; "" if it does not."""
    if isinstance(golden, str):
        return golden
    try:
        batch = _make_batch(golden, _parse_rows(golden, fields), mapping)
        _compare(golden, unifier.batch(batch))
    except _MismatchError as error:
        return str(error)
    return ""


def _make_batch(golden: dict[str, Json], rows: list[Json], mapping: Mapping) -> Batch:
    """Return one row, or one group of rows, as a reader would."""
    key, file = golden.get("key"), golden.get("file", "golden")
    good = [row for row in rows if type(row) is not BrokenRow]
    batch = Batch(
        file=file,
        rows=range(len(good)),
        values=good,
        keys=None if key is None else [key] * len(good),
        bad=[to_bad_row(0, row) for row in rows if type(row) is BrokenRow],
    )
    if mapping.group is None:
        if "rows" in golden:
            raise _MismatchError("rows: expected row, since the mapping does not group")
        return batch
    groups = [value for part in group_rows([batch], mapping.group) for value in part.values]
    if len(groups) > 1:
        raise _MismatchError(f"rows: expected rows of one group, got {len(groups)} groups")
    keys = None if key is None else [key] * len(groups)
    return Batch(file=file, rows=range(len(groups)), values=groups, keys=keys, bad=batch.bad)


def _compare(golden: dict[str, Json], actual: UnifiedBatch) -> None:
    reasons = [reject.reason for reject in actual.rejects]
    if "reject" in golden:
        if actual.records:
            raise _MismatchError(
                f"expected a reject ({golden['reject']}), "
                f"got {count_text(len(actual.records), 'record')}"
            )
        if golden["reject"] not in reasons:
            raise _MismatchError(
                f"reject: expected {golden['reject']}, got {', '.join(reasons) or 'none'}"
            )
        return
    expected = golden["records"]
    if len(expected) != len(actual.records):
        rejects = [
            f"{each.reason} at {each.path}" if each.path else each.reason for each in actual.rejects
        ]
        cause = f" ({', '.join(rejects[:3])})" if rejects else ""
        raise _MismatchError(
            f"expected {count_text(len(expected), 'record')}, got {len(actual.records)}{cause}"
        )
    for number, (old, new) in enumerate(zip(expected, actual.records, strict=True), start=1):
        _require_same(old, new, f"record {number}" if len(expected) > 1 else "")


def _require_same(expected: Json, actual: Json, position: str) -> None:
    """Raise _MismatchError at the first difference; a key that is absent means null."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in dict.fromkeys([*expected, *actual]):
            if key in expected or not (key in _FREE or position.endswith("meta")):
                _require_same(
                    expected.get(key, _NOTHING),
                    actual.get(key, _NOTHING),
                    f"{position} {key}".strip(),
                )
    elif isinstance(expected, list) and isinstance(actual, list):
        for number in range(max(len(expected), len(actual))):
            old, new = (
                one[number] if number < len(one) else _NOTHING for one in (expected, actual)
            )
            _require_same(old, new, f"{position} {number + 1}".strip())
    elif not same_json(*(None if one is _NOTHING else one for one in (expected, actual))):
        raise _MismatchError(
            f"{position}: expected {_value_in_words(expected, actual)}, "
            f"got {_value_in_words(actual, expected)}"
        )


def _value_in_words(value: Json, other: Json) -> str:
    """Show a value; of a long text the part around the first character that differs."""
    if value is _NOTHING:
        return "nothing"
    value = redact(value) if isinstance(value, str) else value  # before it is cut
    if not isinstance(value, str) or len(value) <= _SHOWN:
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= 2 * _SHOWN else f"{text[: 2 * _SHOWN]}..."
    same = common_length(value, other) if isinstance(other, str) else 0
    start = max(0, same - _SHOWN // 3)
    stop = start + _SHOWN
    part = json.dumps(value[start:stop], ensure_ascii=False)
    return f"{'...' * (start > 0)}{part}{'...' * (stop < len(value))}"
