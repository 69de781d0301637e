"""Compare the shape of the data with the one that a mapping was made for.

Samples of the same data differ, so a difference stops a run only where the other sample would have
shown it too: what is in few rows, or what a small sample could have missed, is told.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ingot.agent.judging.shape_paths import (
    ComparedPaths,
    ShapeDocument,
    kinds_text,
    outermost_paths,
)
from ingot.agent.privacy import redact
from ingot.agent.proposing.fingerprint import shape_fingerprint
from ingot.agent.state import Change
from ingot.converters.errors import Problem
from ingot.converters.mapping.language import ROLES, Mapping, RoleFromData, outer_path
from ingot.converters.rows import Json

MOST_CHANGES = 40
_MOST_NAMES = 5


def find_drift(kept: ShapeDocument, now: ShapeDocument) -> tuple[Change, ...]:
    """What differs, first what stops a run."""
    found = [*_fact_changes(kept, now), *_shape_changes(kept, now)]
    return tuple(sorted(found, key=lambda one: not one.stops))


def mapping_changes(changes: Sequence[Change], mapping: Mapping) -> tuple[Change, ...]:
    """The changes as they concern a mapping: speakers that it names, or asks not, are told."""
    named = _roles_by_path(mapping)
    return tuple(
        replace(one, stops=one.stops and _lacks_role(one, named.get(one.path)))
        if one.what == "role value"
        else one
        for one in changes
    )


def _lacks_role(one: Change, named: set[str] | None) -> bool:
    """Whether a mapping that reads this path has no role for one of the new names."""
    return named is not None and "*" not in named and not set(one.names) <= named


def _roles_by_path(mapping: Mapping) -> dict[str, set[str]]:
    """By path the names of speakers for which a mapping has a role; `*` is every name."""
    found: dict[str, set[str]] = {}
    for layout in mapping.alternatives():
        for message in layout.messages or ():
            if isinstance(message.role, RoleFromData):
                path = outer_path(message.each, message.role.path.text)
                path = outer_path((layout.each,), path) if layout.each else path
                path = path.removeprefix("[*].") if mapping.group else path
                found.setdefault(path, set()).update(message.role.map or ROLES)
    return found


def stored_shape(document: ShapeDocument) -> ShapeDocument | None:
    """The shape in a mapping file's provenance; None where there is none to compare with.

    A mapping whose `source` was edited since reads other rows and columns: its shape says nothing.
    """
    kept = (document.get("provenance") or {}).get("shape")
    if not kept or kept.get("facts", {}) != (document.get("source") or {}):
        return None
    return dict(kept)


def redacted_changes(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The first changes as a report may hold them."""
    return tuple(
        replace(
            one, path=redact(one.path), before=redact(one.before), after=redact(one.after), names=()
        )
        for one in changes[:MOST_CHANGES]
    )


def drift_problem(stopping: Sequence[Change]) -> Problem:
    """The changes that stop a run, as one problem of the mapping."""
    said = "; ".join(f"{one.what}: {one.path} {one.values_text}" for one in stopping[:_MOST_NAMES])
    more = f"; {len(stopping) - _MOST_NAMES} more" if len(stopping) > _MOST_NAMES else ""
    expected = "data of the shape that the mapping was made for (or --allow-drift)"
    return Problem("/provenance/shape", "drift", expected, said + more)


def change_lines(changes: Sequence[Change]) -> list[str]:
    """The changes as a table of plain text, one a line; many are cut."""
    rows = [("path", "change", "before", "after"), *map(change_cells, changes[:MOST_CHANGES])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    more = len(changes) - MOST_CHANGES
    made = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [*made, f"{more} more"] if more > 0 else made


def change_cells(one: Change) -> tuple[str, str, str, str]:
    """A change as a row of a table: path, what, before, after."""
    what = one.what if one.stops else f"{one.what} (noted)"
    return one.path, what, one.before, one.after


def _fact_changes(kept: ShapeDocument, now: ShapeDocument) -> Iterator[Change]:
    """Facts about the files; that they are read as before is the mapping's to say."""
    before, after = kept.get("facts", {}), now.get("facts", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            old, new = _fact_text(before.get(name)), _fact_text(after.get(name))
            yield Change(path=name, what="fact", before=old, after=new, stops=False)


def _fact_text(fact: Json) -> str:
    return "" if fact is None else str(fact)


def _shape_changes(kept: ShapeDocument, now: ShapeDocument) -> Iterator[Change]:
    if "wide" in kept or "wide" in now:
        if shape_fingerprint({**kept, "facts": {}}) != shape_fingerprint({**now, "facts": {}}):
            before, after = _width_text(kept), _width_text(now)
            yield Change(path="$", what="type", before=before, after=after, stops=False)
        return
    old, new = ComparedPaths.of(kept, now), ComparedPaths.of(now, kept)
    yield from _vanished_paths(old, new)
    yield from _new_paths(old, new)
    for path in old.types:
        if path in new.types:
            yield from _type_change(path, old, new)
    yield from _role_changes(old, new)


def _width_text(shape: ShapeDocument) -> str:
    return f"{shape.get('wide') or len(shape.get('paths', {}))} paths"


def _vanished_paths(old: ComparedPaths, new: ComparedPaths) -> Iterator[Change]:
    for path in outermost_paths([path for path in old.types if path not in new.types]):
        kinds = kinds_text(old.types[path])
        share = old.part.get(path, 0.0)
        stops = bool(old.usual.get(path)) and old.would_show(share, new)
        yield Change(path=path, what="vanished", before=kinds, after="", stops=stops)


def _new_paths(old: ComparedPaths, new: ComparedPaths) -> Iterator[Change]:
    """What no mapping for the old shape reads; what fills a place that was there is told."""
    for path in outermost_paths([path for path in new.types if path not in old.types]):
        kinds = kinds_text(new.types[path])
        share = new.part.get(path, 0.0)
        shown = bool(new.usual.get(path)) and new.would_show(share, old)
        stops = shown and not old.blank(path)
        yield Change(path=path, what="appeared", before="", after=kinds, stops=stops)


def _type_change(path: str, old: ComparedPaths, new: ComparedPaths) -> Iterator[Change]:
    """Another type; a type that is gone beside others that stay is no change."""
    before, after = old.types[path], new.types[path]
    if not after - before or not before:
        return
    usual = new.usual.get(path, frozenset())
    stops = any(new.would_show(new.share(path, kind), old) for kind in usual - before)
    yield Change(
        path=path, what="type", before=kinds_text(before), after=kinds_text(after), stops=stops
    )


def _role_changes(old: ComparedPaths, new: ComparedPaths) -> Iterator[Change]:
    for path, names in new.roles.items():
        if path in old.roles and (added := names - old.roles[path]):
            before, after = ", ".join(sorted(old.roles[path])), ", ".join(sorted(names))
            made = Change(path=path, what="role value", before=before, after=after, stops=True)
            yield replace(made, names=tuple(sorted(added)))
