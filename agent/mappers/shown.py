"""What a model is shown of a data set: files, inventory of paths, and a few rows, all of it cut.

Rows leave the machine here, so this is the one place that decides what leaves: at most five rows,
long texts cut to head and tail, long lists to their first elements, invisible characters taken out.
"""

import json
import unicodedata
from collections.abc import Sequence

from ingot.converters.profile import PathFacts, Profile
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample

ROWS = 5
HEAD, TAIL = 300, 100
ELEMENTS = 3
MOST_KEYS = 60
MOST_DEPTH = 10
MOST_PATHS = 120
MOST_CHARS = 24_000
_NAME = 128


def dataset(source: Source, sample: Sample, facts: Profile) -> str:
    """The data block of the prompt, at most about `MOST_CHARS` characters."""
    head = [*_files(source), *_roots(source), "", f"Inventory of {facts.rows} sampled rows:"]
    head += [_path_line(one) for one in facts.paths[:MOST_PATHS]]
    if len(facts.paths) > MOST_PATHS:
        head.append(f"... and {len(facts.paths) - MOST_PATHS} more paths")
    text = "\n".join([*head, "", "Rows:"])
    return text + _rows(sample, MOST_CHARS - len(text))


def paths(facts: Profile) -> str:
    """The paths that occur, for a correction."""
    return "\n".join(clean(one.path)[:_NAME] for one in facts.paths[:MOST_PATHS])


def cut(value: Json, depth: int = 0) -> Json:
    """A value that keeps its shape: keys (60), first elements, head and tail of texts."""
    if isinstance(value, str):
        return _cut_text(clean(value))
    if depth >= MOST_DEPTH and isinstance(value, dict | list):
        return f"(+{len(value)} inside)"
    if isinstance(value, list):
        rest = [f"(+{len(value) - ELEMENTS} more)"] if len(value) > ELEMENTS else []
        return [*(cut(one, depth + 1) for one in value[:ELEMENTS]), *rest]
    if isinstance(value, dict):
        return _cut_object(value, depth)
    return value


def clean(text: str) -> str:
    """The text without control, format (zero-width, direction) and unassigned characters."""
    kept = (
        c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cn", "Co")
    )
    return "".join(kept)


def _cut_object(value: dict[str, Json], depth: int) -> dict[str, Json]:
    shown = {clean(key)[:_NAME]: cut(one, depth + 1) for key, one in [*value.items()][:MOST_KEYS]}
    return shown | ({"...": f"(+{len(value) - MOST_KEYS} keys)"} if len(value) > MOST_KEYS else {})


def _cut_text(text: str) -> str:
    left_out = len(text) - HEAD - TAIL
    if left_out <= 0:
        return text
    return f"{text[:HEAD]}...(+{left_out} characters)...{text[-TAIL:]}"


def _files(source: Source) -> list[str]:
    names = [clean(file.name)[:_NAME] for file in source.files]
    more = [f"... and {len(names) - 10} more"] if len(names) > 10 else []
    guessed = source.guessed.to_document()
    lines = [f"Files ({len(names)}): " + ", ".join([*names[:10], *more])]
    return lines + ([f"Guessed by the reader: {_dumped(guessed)}"] if guessed else [])


def _roots(source: Source) -> list[str]:
    if not source.roots:
        return []
    offered = [f"{clean(one.path)} ({_rows_told(one.rows)}{one.why})" for one in source.roots]
    taken = source.spec.root or "default"
    return [f"The rows below are for root {taken}; roots offered: {'; '.join(offered)}"]


def _rows_told(rows: int | None) -> str:
    return "" if rows is None else f"{rows} rows; "


def _path_line(facts: PathFacts) -> str:
    types = "/".join(f"{name} {count}" for name, count in facts.types.items())
    parts = [f"{clean(facts.path)[:_NAME]}: {types}"]
    absent = {"missing": facts.missing, "null": facts.null, "blank": facts.blank}
    parts += [f"{name} {count}" for name, count in absent.items() if count and name != "null"]
    parts.append(f"distinct {facts.distinct}{' (unique)' if facts.unique else ''}")
    if facts.chars:
        parts.append(f"chars {facts.chars.low:g}..{facts.chars.middle:g}..{facts.chars.high:g}")
    if facts.items:
        parts.append(f"elements {facts.items.low:g}..{facts.items.high:g}")
    if facts.numbers:
        parts.append(f"range {facts.numbers.low:g}..{facts.numbers.high:g}")
    return "; ".join([*parts, *_values(facts), *([facts.note] if facts.note else [])])


def _values(facts: PathFacts) -> list[str]:
    """Values with their counts where they are few and repeat, as roles and labels do."""
    if facts.unique:
        return []
    few = [(value, count) for value, count in facts.values if len(str(value)) <= 60][:8]
    if not few:
        return []
    return ["values " + ", ".join(f"{_dumped(cut(value))} x{count}" for value, count in few)]


def _rows(sample: Sample, budget: int) -> str:
    """Rows spread over the sample, as many as fit into the budget (characters)."""
    text = ""
    for row in spread([one.value for one in sample.rows], ROWS):
        line = "\n" + _dumped(cut(row))
        if text and len(text) + len(line) > budget:
            break
        text += line[: max(budget, 1000)]
    return text


def spread(rows: Sequence[Json], count: int) -> list[Json]:
    """At most `count` rows, evenly spread."""
    if len(rows) <= count:
        return list(rows)
    return [rows[number * (len(rows) - 1) // (count - 1)] for number in range(count)]


def _dumped(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
