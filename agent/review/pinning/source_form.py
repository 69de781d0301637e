"""Write rows in the form of the file that they came from, so that a mapping's `source` reads them.

Rows are spelled anew from their values. A form in which they would not read alike is not used:
their sample is JSON Lines then.
"""

import json
from collections.abc import Callable, Sequence

from ingot.agent.review.pinning.sample_redaction import SafeBytes, SafeRow
from ingot.converters import paths
from ingot.converters.rows import Json
from ingot.converters.sources.facts import SourceFile, SourceSpec
from ingot.converters.sources.formats.json_documents import fold_table
from ingot.converters.sources.readers import file_root

# What says how bytes become rows. Other facts (`files`, `query`, `json_fields`, a format that is
# only named) are not needed to read rows that were chosen and parsed.
_FACTS_OF_FORM = ("encoding", "delimiter", "quote", "columns", "root", "orient")


class NoFormError(ValueError):
    """Rows that cannot be written in the form of their file."""


def needs_form(spec: SourceSpec) -> bool:
    """Check whether a mapping states how bytes become rows, so that a review must replay it."""
    return any(getattr(spec, fact) is not None for fact in _FACTS_OF_FORM)


def write_lines(rows: Sequence[SafeRow]) -> SafeBytes:
    """Write rows as JSON Lines."""
    return SafeBytes(_spell_values(rows).encode())


def write_form(file: SourceFile, spec: SourceSpec, rows: Sequence[SafeRow]) -> SafeBytes:
    """Write rows as a file of the same format, encoding and structure. Raises NoFormError."""
    facts = file.facts
    writers: dict[str, Callable[[], str]] = {
        "csv": lambda: _spell_table(file, rows),
        "json": lambda: _spell_json(file, spec, rows),
        "jsonl": lambda: _spell_values(rows),
        "text": lambda: _spell_text(spec, rows),
    }
    if facts.format not in writers or facts.header_rows:  # names may stand in several lines
        raise NoFormError(facts.format)
    text = writers[facts.format]()
    try:
        return SafeBytes(text.replace("\n", facts.newline).encode(facts.encoding))
    except UnicodeEncodeError as error:
        raise NoFormError(facts.encoding) from error


def _spell_values(rows: Sequence[SafeRow]) -> str:
    return "".join(f"{json.dumps(row.value, ensure_ascii=False)}\n" for row in rows)


def _spell_text(spec: SourceSpec, rows: Sequence[SafeRow]) -> str:
    end = "" if spec.root == "$" else "\n"
    return "".join(f"{row.value['text']}{end}" for row in rows)


def _spell_table(file: SourceFile, rows: Sequence[SafeRow]) -> str:
    header = [list(rows[0].value)] if file.facts.header else []
    records = (*header, *(list(row.value.values()) for row in rows))
    delimiter, quote = file.facts.delimiter, file.facts.quote
    lines = ((_spell_cell(cell, delimiter, quote) for cell in record) for record in records)
    return "".join(f"{delimiter.join(cells)}\n" for cells in lines)


def _spell_cell(cell: str | None, delimiter: str, quote: str) -> str:
    text = cell or ""
    if not quote or not any(mark in text for mark in (quote, delimiter, "\n", "\r")):
        return text
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


def _spell_json(file: SourceFile, spec: SourceSpec, rows: Sequence[SafeRow]) -> str:
    """Spell a document with nothing but these rows, at the place that the root names."""
    if file.facts.layout == "values" and spec.root in (None, "[*]"):
        return _spell_values(rows)
    values = [row.value for row in rows]
    keys = None if any(row.key is None for row in rows) else [row.key or "" for row in rows]
    if spec.orient not in (None, "index"):
        values, steps = [fold_table(values, keys, spec.orient or "")], _steps(spec.root or "$")
    else:
        steps = _steps(file_root(file, spec).text)
    return f"{json.dumps(_nest_rows(values, keys, steps), ensure_ascii=False)}\n"


def _steps(root: str) -> tuple[paths.Step, ...]:
    return () if root == "$" else paths.compile_path(root).steps


def _nest_rows(
    values: Sequence[Json], keys: Sequence[str] | None, steps: Sequence[paths.Step]
) -> Json:
    """Return the value in which a path leads to these rows and to nothing else."""
    many = [n for n, step in enumerate(steps) if isinstance(step, paths.Mark)]
    if not many:
        if len(values) != 1:
            raise NoFormError("a root that leads to one row")
        return _nest_value(values[0], steps)
    rows = [_nest_value(value, steps[many[-1] + 1 :]) for value in values]
    names = keys if keys is not None else [str(n) for n in range(len(rows))]
    keyed = steps[many[-1]] == paths.Mark("*")
    inner: Json = dict(zip(names, rows, strict=True)) if keyed else rows
    return _nest_value(inner, steps[: many[-1]])


def _nest_value(value: Json, steps: Sequence[paths.Step]) -> Json:
    """Return the value in which a path leads to another one."""
    for step in reversed(steps):
        match step:
            case paths.Names(names=names):
                for name in reversed(names):
                    value = {name: value}
            case paths.Key(name=name):
                value = {name: value}
            case paths.Mark(mark="*"):
                value = {"0": value}
            case paths.Mark(mark="[*]") | paths.Index(place=0 | -1):
                value = [value]
            case _:
                raise NoFormError("a root with other steps")
    return value
