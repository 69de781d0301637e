"""Whether data still has the shape that a mapping was made for: two shapes compared.

Samples of the same data differ, so a difference stops a run only where the other sample would have
shown it too: what is in few rows, or what a small sample could have missed, is told.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Lookup
from dataclasses import dataclass, replace
from typing import Literal

from ingot.agent.fingerprint import fingerprint_of
from ingot.agent.shapes import Paths, kinds_text, outermost
from ingot.converters.errors import Problem
from ingot.converters.language import ROLES, Mapping, RoleFromData
from ingot.converters.rows import Json
from ingot.converters.sides import inside

What = Literal["appeared", "vanished", "type", "role value", "fact"]
Document = Lookup[str, Json]

MOST_TOLD = 40
_MOST_SAID = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One difference between the shape that a mapping was made for and that of the data now.

    Attributes:
        path: in the mapping language; of a fact its name.
        what: `appeared`, `vanished`, `type`, `role value` or `fact`.
        before, after: types, names of speakers or the fact; "" where there is none.
        stops: a run stops for it; else it is told.
        names: the speakers that are new.
    """

    path: str
    what: What
    before: str
    after: str
    stops: bool
    names: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Before and after in one piece."""
        if self.before and self.after:
            return f"({self.before} → {self.after})"
        return f"({self.before or self.after})"

    def texts(self) -> dict[str, str]:
        """What may hold names and values of the data."""
        return {"path": self.path, "before": self.before, "after": self.after}

    def to_json(self) -> dict[str, Json]:
        """The change as plain JSON types, without the names that `after` tells too."""
        return {**self.texts(), "what": self.what, "stops": self.stops}


def drift(kept: Document, now: Document) -> tuple[Change, ...]:
    """What differs, first what stops a run.

    Args:
        kept: the shape that a mapping's provenance holds.
        now: the shape of the data as it is.
    """
    found = [*_facts(kept, now), *_shapes(kept, now)]
    return tuple(sorted(found, key=lambda one: not one.stops))


def for_mapping(changes: Sequence[Change], mapping: Mapping) -> tuple[Change, ...]:
    """The changes as they concern a mapping: speakers that it names, or asks not, are told."""
    named = _named_roles(mapping)
    return tuple(
        replace(one, stops=one.stops and _unnamed(one, named.get(one.path)))
        if one.what == "role value"
        else one
        for one in changes
    )


def _unnamed(one: Change, named: set[str] | None) -> bool:
    """Whether a mapping that reads this path has no role for one of the new names."""
    return named is not None and "*" not in named and not set(one.names) <= named


def _named_roles(mapping: Mapping) -> dict[str, set[str]]:
    """By path the names of speakers for which a mapping has a role; `*` is every name."""
    found: dict[str, set[str]] = {}
    for layout in mapping.alternatives():
        for message in layout.messages or ():
            if isinstance(message.role, RoleFromData):
                path = inside(message.each, message.role.path.text)
                path = inside((layout.each,), path) if layout.each else path
                path = path.removeprefix("[*].") if mapping.group else path
                found.setdefault(path, set()).update(message.role.map or ROLES)
    return found


def kept_shape(document: Document) -> Document | None:
    """The shape in a mapping file's provenance; None where there is none to compare with.

    A mapping whose `source` was edited since reads other rows and columns: its shape says nothing.
    """
    kept = (document.get("provenance") or {}).get("shape")
    if not kept or kept.get("facts", {}) != (document.get("source") or {}):
        return None
    return dict(kept)


def problem(stopping: Sequence[Change]) -> Problem:
    """The changes that stop a run, as one problem of the mapping."""
    said = "; ".join(f"{one.what}: {one.path} {one.told}" for one in stopping[:_MOST_SAID])
    more = f"; {len(stopping) - _MOST_SAID} more" if len(stopping) > _MOST_SAID else ""
    expected = "data of the shape that the mapping was made for (or --allow-drift)"
    return Problem("/provenance/shape", "drift", expected, said + more)


def lines(changes: Sequence[Change]) -> list[str]:
    """The changes as a table of plain text, one a line; many are cut."""
    rows = [("path", "change", "before", "after"), *map(cells, changes[:MOST_TOLD])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    more = len(changes) - MOST_TOLD
    made = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return [*made, f"{more} more"] if more > 0 else made


def cells(one: Change) -> tuple[str, str, str, str]:
    """A change as a row of a table: path, what, before, after."""
    what = one.what if one.stops else f"{one.what} (noted)"
    return one.path, what, one.before, one.after


def _facts(kept: Document, now: Document) -> Iterator[Change]:
    """Facts about the files; that they are read as before is the mapping's to say."""
    before, after = kept.get("facts", {}), now.get("facts", {})
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            old, new = _shown(before.get(name)), _shown(after.get(name))
            yield Change(path=name, what="fact", before=old, after=new, stops=False)


def _shown(fact: Json) -> str:
    return "" if fact is None else str(fact)


def _shapes(kept: Document, now: Document) -> Iterator[Change]:
    if "wide" in kept or "wide" in now:
        if fingerprint_of({**kept, "facts": {}}) != fingerprint_of({**now, "facts": {}}):
            before, after = _width(kept), _width(now)
            yield Change(path="$", what="type", before=before, after=after, stops=False)
        return
    old, new = Paths.of(kept, now), Paths.of(now, kept)
    yield from _vanished(old, new)
    yield from _appeared(old, new)
    for path in old.types:
        if path in new.types:
            yield from _type(path, old, new)
    yield from _roles(old, new)


def _width(shape: Document) -> str:
    return f"{shape.get('wide') or len(shape.get('paths', {}))} paths"


def _vanished(old: Paths, new: Paths) -> Iterator[Change]:
    for path in outermost([path for path in old.types if path not in new.types]):
        kinds = kinds_text(old.types[path])
        share = old.part.get(path, 0.0)
        stops = bool(old.usual.get(path)) and old.shows(share, new)
        yield Change(path=path, what="vanished", before=kinds, after="", stops=stops)


def _appeared(old: Paths, new: Paths) -> Iterator[Change]:
    """What no mapping for the old shape reads; what fills a place that was there is told."""
    for path in outermost([path for path in new.types if path not in old.types]):
        kinds = kinds_text(new.types[path])
        share = new.part.get(path, 0.0)
        shown = bool(new.usual.get(path)) and new.shows(share, old)
        stops = shown and not old.blank(path)
        yield Change(path=path, what="appeared", before="", after=kinds, stops=stops)


def _type(path: str, old: Paths, new: Paths) -> Iterator[Change]:
    """Another type; a type that is gone beside others that stay is no change."""
    before, after = old.types[path], new.types[path]
    if not after - before or not before:
        return
    usual = new.usual.get(path, frozenset())
    stops = any(new.shows(new.share(path, kind), old) for kind in usual - before)
    yield Change(
        path=path, what="type", before=kinds_text(before), after=kinds_text(after), stops=stops
    )


def _roles(old: Paths, new: Paths) -> Iterator[Change]:
    for path, names in new.roles.items():
        if path in old.roles and (added := names - old.roles[path]):
            before, after = ", ".join(sorted(old.roles[path])), ", ".join(sorted(names))
            made = Change(path=path, what="role value", before=before, after=after, stops=True)
            yield replace(made, names=tuple(sorted(added)))
