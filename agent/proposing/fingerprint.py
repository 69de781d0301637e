"""The shape of a source, so that a later run can tell whether the data drifted.

Two samples of equal shape have equal fingerprints: which values they hold does not matter, which
paths and JSON types occur does, and so do the names of speakers and the facts that the files are
read by. A shape is small and readable, since it stands in the provenance of a saved mapping.
"""

import hashlib
from collections.abc import Iterator
from typing import TypedDict, cast

from ingot.agent.privacy import redact
from ingot.agent.proposing.names import alias_tables, speaker_role, spell_name
from ingot.converters.json_yaml import json_digest
from ingot.converters.rows import MappingDocument
from ingot.converters.sources import Source
from ingot.converters.sources.profile import MAX_PATHS, PathFacts, all_facts
from ingot.converters.sources.sample import Sample


class Shape(TypedDict, total=False):
    """What a sample shows of the rows, as the provenance of a mapping holds it.

    Types of paths, those in few rows apart; shares below 1; names of speakers; how many rows it is
    worth; in place of all these the number of paths where they are too many.
    """

    paths: dict[str, str]
    rare: dict[str, str]
    partly: dict[str, float]
    mixed: dict[str, dict[str, float]]
    roles: dict[str, list[str]]
    weight: int
    wide: int
    sha256: str
    facts: MappingDocument  # the `source` of a mapping


# Paths in fewer of the rows, and types of fewer of a path's values, say little: another sample of
# the same data may lack them.
RARE_SHARE = 0.2
_MOST_PATH = 200
_MOST_ROLES = 12
_ROLE_CHARS = 32
_MOST_NUMBERED = 3
_NEIGHBOURS = 10  # neighbouring rows that a sample takes together; they resemble each other


def source_shape(source: Source, sample: Sample) -> Shape:
    """Return what can be told of a source's shape from a sample."""
    facts_of_paths = all_facts([row.value for row in sample.rows])
    facts = source.guessed.to_document() | source.spec.to_document()
    rows = len(sample.rows)
    head: Shape = {"facts": facts} if facts else {}
    head["weight"] = rows if sample.complete else max(1, rows // _NEIGHBOURS)
    wide = len(facts_of_paths) > MAX_PATHS  # only hashed then
    paths = {
        path_facts.path if wide else _spell_path(path_facts.path): path_facts
        for path_facts in facts_of_paths
    }
    body: Shape = {
        "paths": {
            path: kinds
            for path, path_facts in paths.items()
            if (kinds := _type_text(path_facts, rows))
        },
        "partly": {
            path: part
            for path, path_facts in paths.items()
            if (part := _row_share(path_facts, rows)) < 1
        },
        "mixed": {
            path: mix
            for path, path_facts in paths.items()
            if (mix := _type_shares(path_facts, rows))
        },
        "rare": {
            path: kinds
            for path, path_facts in paths.items()
            if (kinds := _rare_types(path_facts, rows))
        },
        "roles": {
            path: names for path, path_facts in paths.items() if (names := _role_values(path_facts))
        },
    }
    if wide:
        return {**head, "wide": len(paths), "sha256": json_digest(_steady_part(body))}
    body["partly"] = {path: part for path, part in body["partly"].items() if path in body["paths"]}
    return cast("Shape", {**head, **{key: value for key, value in body.items() if value}})


def _spell_path(path: str) -> str:
    """A path as a shape holds it: keys may be data, secret or long, and are the same each time."""
    clean = redact(path)
    if len(clean) <= _MOST_PATH:
        return clean
    return f"{clean[:_MOST_PATH]}~{hashlib.sha256(clean.encode()).hexdigest()[:8]}"


def fingerprint(source: Source, sample: Sample) -> str:
    """Return the SHA-256 of a source's shape without what is rare."""
    return shape_fingerprint(source_shape(source, sample))


def shape_fingerprint(shape: Shape) -> str:
    """Return the fingerprint of a shape; files that are not read do not count."""
    facts = {key: fact for key, fact in shape.get("facts", {}).items() if key != "files"}
    return json_digest([facts, shape.get("sha256") or _steady_part(shape)])


def _steady_part(shape: Shape) -> object:
    """What another sample of the same data would show too."""
    return [shape.get("paths", {}), shape.get("roles", {})]


def _value_counts(facts: PathFacts) -> dict[str, int]:
    """How many values a path has of each type; null is none, and a number is a number."""
    counts: dict[str, int] = {}
    for kind, count in facts.types.items():
        if kind != "null":
            name = "number" if kind == "integer" else kind
            counts[name] = counts.get(name, 0) + count
    return counts


def _type_text(facts: PathFacts, rows: int) -> str:
    """The types of a path that is not rare, as in `number|string`; `null` where there is none."""
    if _row_share(facts, rows) < RARE_SHARE:
        return ""
    counts = _value_counts(facts)
    whole = sum(counts.values())
    return (
        "|".join(sorted(k for k, count in counts.items() if count >= RARE_SHARE * whole)) or "null"
    )


def _type_shares(facts: PathFacts, rows: int) -> dict[str, float]:
    """The share of each type, where a path that is not rare has several that are not."""
    usual, counts = _type_text(facts, rows).split("|"), _value_counts(facts)
    whole = sum(counts.values())
    return {k: int(100 * counts[k] / whole) / 100 for k in usual} if len(usual) > 1 else {}


def _rare_types(facts: PathFacts, rows: int) -> str:
    """The types of a rare path, or the rare types of another."""
    usual = _type_text(facts, rows).split("|")
    return "|".join(sorted(kind for kind in _value_counts(facts) if kind not in usual))


def _row_share(facts: PathFacts, rows: int) -> float:
    """The share of the rows that have a path, rounded down to hundredths."""
    hits = facts.places - facts.missing
    present = facts.rows if "*" in facts.path else max(facts.rows, hits)
    return int(100 * min(present, rows) / max(1, rows)) / 100


def _role_values(facts: PathFacts) -> list[str]:
    """The values of a path that holds names of speakers, sorted; [] if it does not."""
    return sorted(map(redact, _speaker_names(facts))) if facts.types.get("string") else []


def _speaker_names(facts: PathFacts) -> Iterator[str]:
    names = [value for value, _ in facts.values if isinstance(value, str)]
    numbered = sum(name[-1].isdigit() for name in names)
    if not names or len(names) > _MOST_ROLES or max(map(len, names)) > _ROLE_CHARS:
        return
    if numbered > _MOST_NUMBERED:  # `user_17`, `user_203`: people, not roles
        return
    last = spell_name(facts.path.rpartition(".")[2])
    called = last in map(spell_name, alias_tables()["slots"]["speaker"])
    known = sum(speaker_role(name) is not None for name in names)
    if 2 * known > len(names) or (called and known):
        yield from names
