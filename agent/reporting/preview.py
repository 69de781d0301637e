"""A mapping as people read it: one line per target, coverage per path, rows beside their records.

Everything here is text of unknown origin; the doors that print it take out control characters. What
identifies people and what opens doors is replaced by placeholders, unless the order says `raw`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ingot.agent.context import Context
from ingot.agent.judging.trial import try_out
from ingot.agent.privacy import hide_secrets, named_secrets, redact_value
from ingot.agent.state import State
from ingot.converters.mapping.check import PathCoverage
from ingot.converters.rows import Json

EXAMPLES = 3
_TEXT, _PART, _MESSAGES, _ELEMENTS = 600, 160, 8, 4
_READ = 4 * _TEXT  # characters of a text in which secrets are looked for, cut at its end or not


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What a reviewer looks at.

    Attributes:
        lines: (target, where it comes from), in the order of the mapping.
        coverage: "196/200 rows", and the same per path, as (path, pointer, rows).
        examples: (row, record) pairs from the sample.
    """

    lines: tuple[tuple[str, str], ...]
    coverage: str
    paths: tuple[tuple[str, str, str], ...]
    examples: tuple[tuple[Json, Json], ...]


def preview(state: State, context: Context, *, examples: int = EXAMPLES) -> Preview:
    """The preview of the state's proposal; rows are drawn again, since the state holds none."""
    proposal, order, check = state["proposal"], state["order"], state["check"]
    mapping = (proposal and proposal.mapping) or {}
    where = f"the {proposal.mapper}" if proposal else "the mapping"
    trial = try_out(context, order, mapping, where=where, show=examples)
    report = trial.report
    show = _unchanged if order.share_values == "raw" else _redact_shown
    return Preview(
        lines=tuple((show(target), show(how)) for target, how in describe(mapping)),
        coverage=f"{report.ok_rows}/{report.rows} rows",
        paths=tuple(
            (show(path), pointer, rows)
            for path, pointer, rows in path_coverage(check.paths if check else ())
        ),
        examples=tuple(
            (
                show(row),
                show(record if show is _unchanged else hide_secrets(record, named_secrets(row))),
            )
            for row, record in report.examples
        ),
    )


def _unchanged(value: Json) -> Json:
    return value


def _redact_shown(value: Json) -> Json:
    """The value redacted; of long texts only what may be shown is read, the rest is blanked."""
    return _blank_rest(redact_value(_cut_beginning(value)), value)


def _cut_beginning(value: Json) -> Json:
    if isinstance(value, str):
        return value[:_READ]
    if isinstance(value, list):
        return [_cut_beginning(one) for one in value]
    if isinstance(value, dict):
        return {key: _cut_beginning(one) for key, one in value.items()}
    return value


def _blank_rest(begun: Json, whole: Json) -> Json:
    """The same as long as it was, since people are told how much is left out."""
    if isinstance(begun, str) and isinstance(whole, str):
        return begun + " " * (len(whole) - _READ)
    if isinstance(begun, list) and isinstance(whole, list):
        return [_blank_rest(one, other) for one, other in zip(begun, whole, strict=True)]
    if isinstance(begun, dict) and isinstance(whole, dict):
        pairs = zip(begun.items(), whole.values(), strict=True)
        return {key: _blank_rest(one, other) for (key, one), other in pairs}
    return begun


def path_coverage(paths: Iterable[PathCoverage]) -> Iterator[tuple[str, str, str]]:
    """(path, pointer, "196/200 rows, 4 null") for every path of a checked mapping."""
    for one in paths:
        rows = one.resolved + one.null + one.missing
        counts = {"null": one.null, "missing": one.missing}
        absent = [f"{count} {name}" for name, count in counts.items() if count]
        yield one.path, one.pointer, ", ".join([f"{one.resolved}/{rows} rows", *absent])


def describe(document: Json) -> Iterator[tuple[str, str]]:
    """A mapping document, target by target."""
    for key, value in (document.get("source") or {}).items():
        yield f"source.{key}", plain_text(value)
    group = document.get("group")
    if group:
        sort = f", sorted by {group['sort']}" if group.get("sort") else ""
        yield "group", f"rows with equal {' + '.join(group['by'])}{sort}"
    yield from _layout_rows(document)
    for number, variant in enumerate(document.get("any_of", []), start=1):
        for target, how in _layout_rows(variant):
            yield f"alternative {number}: {target}", how


def _layout_rows(layout: dict[str, Json]) -> Iterator[tuple[str, str]]:
    if layout.get("each"):
        yield "each", f"one record per {layout['each']}"
    for condition in layout.get("where", []):
        operator = next(key for key in condition if key != "path")
        yield "where", f"{condition['path']} {operator} {plain_text(condition[operator])}"
    if layout.get("text") is not None:
        yield "text", value_text(layout["text"])
    for message in layout.get("messages") or []:
        yield _role_text(message["role"]), _message_text(message)
    for key in ("system", "tools"):
        if layout.get(key) is not None:
            yield key, value_text(layout[key])
    for key, value in (layout.get("meta") or {}).items():
        if value is not None:
            yield f"meta.{key}", value_text(value)


def _role_text(role: Json) -> str:
    if isinstance(role, str):
        return role
    if isinstance(role, list):
        return f"{' / '.join(role)} in turn"
    if "split" in role:
        return "roles by marker"
    return f"role by {role['path']}"


def _message_text(message: dict[str, Json]) -> str:
    parts = []
    each = message.get("each")
    if each:
        parts.append(f"each {each if isinstance(each, str) else ' with '.join(each)}:")
    content = message["content"]
    parts.append("nothing" if content is None else value_text(content))
    role = message["role"]
    if isinstance(role, dict):
        parts.append(f"({_pairs_text(role.get('split') or role.get('map') or {})})")
    if message.get("loss_mask") is not None:
        parts.append(f"(loss_mask {plain_text(message['loss_mask'])})")
    return " ".join(parts)


def value_text(value: Json) -> str:
    """A value of the mapping language in words."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " + ".join(map(value_text, value))
    return " ".join([_value_form(value), *_value_modifiers(value)])


def _value_form(value: dict[str, Json]) -> str:
    if "literal" in value:
        return f"the text {plain_text(value['literal'])}"
    if "template" in value:
        return f"template {plain_text(value['template'])}"
    if "any_of" in value:
        return "first of " + ", ".join(map(value_text, value["any_of"]))
    if "concat" in value:
        return value_text(value["concat"])
    return str(value["path"])


def _value_modifiers(value: dict[str, Json]) -> Iterator[str]:
    each = value.get("each")
    if each:
        yield f"for each {each if isinstance(each, str) else ' with '.join(each)}"
    if value.get("pick") is not None:
        yield f"picked by {value_text(value['pick'])}"
    for key in ("map", "replace"):
        if value.get(key):
            yield f"({key} {_pairs_text(value[key])})"
    for key in ("as", "label", "sep"):
        if value.get(key) is not None:
            yield f"({key} {plain_text(value[key])})"


def _pairs_text(mapped: dict[str, Json]) -> str:
    return ", ".join(
        f"{key!r} → {'left out' if value is None else plain_text(value)}"
        for key, value in mapped.items()
    )


def plain_text(value: Json) -> str:
    """A value of any kind in one short line: names bare, all else as JSON, cut at 120."""
    text = value if isinstance(value, str) and value.isidentifier() else _json_text(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _json_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def raw_row_text(row: Json) -> str:
    """A raw row as people read it: JSON with long texts and lists cut."""
    return json.dumps(_shorten(row), ensure_ascii=False, indent=1)


def _shorten(value: Json) -> Json:
    if isinstance(value, str):
        return shorten_text(value, _PART)
    if isinstance(value, list):
        more = [f"(+{len(value) - _ELEMENTS} more)"] if len(value) > _ELEMENTS else []
        return [*map(_shorten, value[:_ELEMENTS]), *more]
    if isinstance(value, dict):
        return {key: _shorten(inner) for key, inner in value.items()}
    return value


def record_lines(record: dict[str, Json], *, most: int = _TEXT) -> Iterator[tuple[str, str]]:
    """A unified record as people read it: (role or key, text), line breaks as they are."""
    if "text" in record:
        yield "text", shorten_text(record["text"], most)
    messages = record.get("messages", [])
    for message in messages[:_MESSAGES]:
        yield _speaker_text(message), shorten_text(message["content"], most)
    if len(messages) > _MESSAGES:
        yield "", f"(+{len(messages) - _MESSAGES} messages)"
    for key in ("system", "tools"):
        if record.get(key) is not None:
            yield key, shorten_text(record[key], most)
    yield "meta", ", ".join(f"{k} {v}" for k, v in record["meta"].items() if v is not None)


def _speaker_text(message: dict[str, Json]) -> str:
    """The role, and whether it is trained on where that is not as usual."""
    usual = message["role"] == "assistant"
    if message["loss_mask"] == usual:
        return str(message["role"])
    return f"{message['role']} ({'trained' if message['loss_mask'] else 'not trained'})"


def shorten_text(text: str, most: int) -> str:
    """The text, or its beginning and how much is left out."""
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]} ...(+{left_out} characters)"
