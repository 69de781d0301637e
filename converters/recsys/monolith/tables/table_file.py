"""A reviewed file that says what the columns of a table are; `monolith_table.schema.json`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ingot.converters import json_yaml
from ingot.converters.errors import ParametersError, Problem
from ingot.converters.recsys.monolith.fid import BITS, Version
from ingot.converters.recsys.monolith.tables.schema import Null

Others = Literal["drop", "infer"]

_LARGEST: Final = 4 << 20  # bytes of such a file: more features than a table can have
_DOCUMENT: Final = "docs/monolith.md"
_VERSIONS: Final = {"fid_v1": "v1", "fid_v2": "v2"}


@dataclass(frozen=True, kw_only=True)
class FeatureRule:
    """What a feature is made of."""

    column: str
    kind: str | None = None  # of `contract.FEATURE_KINDS`; None: by the column's type
    slot: int | None = None  # where values become fids, the slot of these
    version: Version | None = None  # of fids that are made, or that are there if no kind says it
    hash: str = "none"  # none | xxh64, of values that become fids
    ident: int = 0  # the feature's `id`
    sorted_id: int = 0  # its `sorted_id`
    null: Null = "absent"


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A checked file."""

    where: str
    features: dict[str, FeatureRule]
    line_id: dict[str, str]
    label: tuple[str, ...] = ()
    instance_weight: str | None = None
    data_source_key: str | None = None
    sort_id: str | None = None
    # what becomes of the columns that are not named; None: an error names them
    others: Others | None = None


def load_table_file(path: Path) -> TableFile:
    """Read such a file, YAML or JSON."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"larger than {_LARGEST >> 20} MiB: no file about a table")
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable_error(str(path), "not UTF-8") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable_error(str(path), reason) from error
    return parse_table_file(text, str(path))


def parse_table_file(text: str, where: str) -> TableFile:
    """Parse the text of a table file."""
    try:
        document = json_yaml.read_yaml(text)
    except ValueError as error:
        raise _unreadable_error(where, " ".join(str(error).split())[:300]) from error
    problems = list(_value_traps("", document)) or list(_schema_problems(document))
    for name, rule in document.get("features", {}).items() if not problems else ():
        problems += _contradictions(json_yaml.pointer_to("/features", name), rule or {})
    if problems:
        raise ParametersError(where, tuple(problems))
    label = document.get("label", [])
    rules = {
        name: {"column": name, **(rule or {}), "ident": (rule or {}).get("id", 0)}
        for name, rule in document.get("features", {}).items()
    }
    labels = [label] if isinstance(label, str) else label
    return json_yaml.decode(
        TableFile, {"line_id": {}, **document, "where": where, "features": rules, "label": labels}
    )


def _unreadable_error(where: str, problem_text: str) -> ParametersError:
    problem = Problem(
        "", "unreadable", "what is said of a table", f"cannot be read: {problem_text}"
    )
    return ParametersError(where, (problem,))


def _schema_problems(document: object) -> Iterator[Problem]:
    if not isinstance(document, dict):
        yield Problem("", "schema", "names and values", type(document).__name__)
        return
    for pointer, message in json_yaml.violations("monolith_table", document):
        yield Problem(pointer, "schema", f"what {_DOCUMENT} says", message[:300])


def _value_traps(pointer: str, value: object) -> Iterator[Problem]:
    """What a schema takes and nobody can use: keys that are no texts, 5.0, halves of characters."""
    if isinstance(value, float):
        yield Problem(pointer, "schema", "a whole number without a point, or a text", str(value))
    elif isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        yield Problem(pointer, "schema", "whole characters", ascii(value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                key_text = "null" if key is None else str(key)  # YAML takes null for a value
                yield Problem(pointer, "schema", f'a text: quote it: "{key_text}"', key_text)
            yield from _value_traps("", key)
            yield from _value_traps(f"{pointer}/{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _value_traps(f"{pointer}/{index}", inner)


def _contradictions(pointer: str, rule: Mapping[str, Any]) -> Iterator[Problem]:
    kind, slot = rule.get("kind"), rule.get("slot")
    of_kind = _VERSIONS.get((kind or "")[:6])
    if kind is not None and of_kind is None:
        for key in ("slot", "version", "hash"):
            if key in rule:
                expected = f"nothing, as {kind} holds no fids"
                yield Problem(f"{pointer}/{key}", "contradiction", expected, str(rule[key]))
    elif of_kind is not None and rule.get("version", of_kind) != of_kind:
        expected = f"{of_kind}, as kind is {kind}"
        yield Problem(f"{pointer}/version", "contradiction", expected, rule["version"])
    if "hash" in rule and slot is None:
        expected = "a slot for the fids that are made"
        yield Problem(f"{pointer}/slot", "contradiction", expected, "nothing")
    version: Version = "v1" if (of_kind or rule.get("version")) == "v1" else "v2"
    if slot is not None and slot >> BITS[version].slot:
        maximum = (1 << BITS[version].slot) - 1
        yield Problem(
            f"{pointer}/slot", "contradiction", f"0..{maximum}, as fids are {version}", str(slot)
        )
