"""Find the mappings that differ between two sides, and what each of them is on both sides."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ingot.agent.review.git_repository import find_renames
from ingot.agent.review.revisions import (
    SIDECARS,
    Extent,
    Side,
    is_json,
    sample_extent,
    sidecar_ids,
    sidecar_owner,
)
from ingot.converters.errors import MappingError, Problem, RevisionError
from ingot.converters.json_yaml import pointer_to
from ingot.converters.mapping import language
from ingot.converters.mapping.bind import MAX_BYTES, read_mapping
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.rows import MappingDocument
from ingot.converters.sources.storage.listing import matches_globs

Status = Literal["added", "modified", "renamed", "removed", "broken"]

# The keys of version 1 and 2; an object with others is no mapping.
_WHOLE = ("version", "source", "group", "any_of", "provenance")
_KEYS = frozenset((*_WHOLE, "each", "where", "text", "messages", "system", "tools", "meta"))
_MOST_NEIGHBOURS = 500  # files of a folder that are looked at for a mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedMapping:
    """A mapping that is not the same on both sides; `broken`: the new file is not a mapping.

    `text` is the new file, `problems` say why it is broken. `beside` names the sidecars that were
    changed (`sample`, `golden`), `samples` how much there was and is of a changed pinned sample.
    """

    path: str
    status: Status
    old_path: str | None = None
    old: language.Mapping | None = None
    new: language.Mapping | None = None
    text: str = ""
    problems: tuple[Problem, ...] = ()
    beside: frozenset[str] = frozenset()
    samples: tuple[Extent | None, Extent | None] = (None, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """A file of one side: its bytes (None = too large for a mapping), and its mapping."""

    data: bytes | None
    mapping: language.Mapping | None = None

    @property
    def text(self) -> str:
        return (self.data or b"").decode("utf-8-sig", errors="replace")

    def problems(self, path: str) -> tuple[Problem, ...]:
        """Say why it is not a mapping."""
        if self.data is None:
            return (Problem("", "too_large", f"at most {MAX_BYTES >> 20} MiB", "more"),)
        try:
            read_mapping(self.data, where=path)
        except MappingError as error:
            return error.problems
        return ()


def find_changed(base: Side, head: Side, globs: Sequence[str] | None) -> list[ChangedMapping]:
    """Find the mappings that differ, by path."""
    _require_matches(base, head, globs)
    changed = {
        path
        for path in {*base.files, *head.files, *base.others, *head.others}
        if _object_id_at(base, path) != _object_id_at(head, path)
    }
    owned = _find_owned(changed, base, head, globs)
    paths = sorted(one for one in changed - owned if is_json(one) or one in head.others)
    old, new = _read_files(base, paths), _read_files(head, paths)
    moves = _moved_mappings(old, new, base, head)
    mappings = [*_changed_paths(paths, old, new, (base, head), moves, globs)]
    beside = head.files.keys() & {sidecar_owner(path) for path in changed}
    untouched = beside - {one.path for one in mappings}
    for path, one in _read_files(head, sorted(untouched)).items():
        if one.mapping is not None:  # only a sidecar of it changed
            mappings.append(_remaining_mapping(path, None, one.mapping, one))
    placed = (_with_sidecar_changes(one, base, head) for one in mappings if _is_chosen(one, globs))
    return sorted(placed, key=lambda one: one.path)


def _is_chosen(one: ChangedMapping, globs: Sequence[str] | None) -> bool:
    return any(path is not None and matches_globs(path, globs) for path in (one.path, one.old_path))


def compare_files(old: Side, old_path: str, new: Side, new_path: str) -> ChangedMapping:
    """Compare two files."""
    before, after = _read_single(old, old_path), _read_single(new, new_path)
    if before.mapping is None:
        raise MappingError(old.name, before.problems(old_path))
    found = _remaining_mapping(new_path, old_path, before.mapping, after)
    return found if found.status == "broken" else replace(found, status="modified")


def _read_single(side: Side, path: str) -> _File:
    if path not in side.files:
        raise RevisionError(side.name, "no such file", "check the spelling")
    return _read_files(side, [path])[path]


def _object_id_at(side: Side, path: str) -> str | None:
    return side.files.get(path) or side.others.get(path)


def _require_matches(base: Side, head: Side, globs: Sequence[str] | None) -> None:
    paths = {*base.files, *head.files, *base.others, *head.others}
    if globs is not None and not any(_is_stated(path, globs) for path in paths):
        hint = "check its spelling; paths begin at the top of the repository"
        said = "no JSON file of either side is of this name"
        raise RevisionError(f"--mappings {', '.join(globs)!r}", said, hint)


def _is_stated(path: str, globs: Sequence[str] | None) -> bool:
    """Check whether a file is one of those that have to be mappings."""
    return globs is not None and is_json(path) and matches_globs(path, globs)


def _find_owned(
    changed: Collection[str], base: Side, head: Side, globs: Sequence[str] | None
) -> set[str]:
    """Find the sidecars of mappings; what only has the name of one may be a mapping itself."""
    owners = {path: owner for path in changed if (owner := sidecar_owner(path))}
    mappings = {
        path
        for side in (base, head)
        for path, one in _read_files(side, sorted(set(owners.values()))).items()
        if one.mapping is not None or _is_stated(path, globs)
    }
    return {path for path, owner in owners.items() if owner in mappings}


def _read_files(side: Side, paths: Collection[str]) -> dict[str, _File]:
    """Read the files of a side, except those that are too large for a mapping."""
    there = [path for path in paths if path in side.files]
    found = side.contents(there, MAX_BYTES)
    return {path: _parse_file(path, found.get(path)) for path in there}


def _parse_file(path: str, data: bytes | None) -> _File:
    if data is None or not _KEYS.issuperset(stated := _parse_object(data)) or not stated:
        return _File(data=data)
    try:
        return _File(data=data, mapping=read_mapping(data, where=path))
    except MappingError:
        return _File(data=data)


def _parse_object(data: bytes) -> MappingDocument:
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _moved_mappings(
    old: Mapping[str, _File], new: Mapping[str, _File], base: Side, head: Side
) -> dict[str, str]:
    """Find the mappings that were renamed: new path -> old path.

    They are paired by what the mappings say, however the files are laid out; by the files where one
    is not a mapping; then by a sample or golden rows that moved along unchanged.
    """
    gone = {
        path: one
        for path, one in old.items()
        if one.mapping is not None and _object_id_at(head, path) is None
    }
    come = {path: one for path, one in new.items() if path not in old and one.data}
    moves: dict[str, str] = {}
    for spell in (_canonical_bytes, lambda one: one.data or b""):
        before = {path: spell(one) for path, one in gone.items() if path not in moves.values()}
        after = {path: spell(one) for path, one in come.items() if path not in moves}
        moves |= find_renames(before, {path: data for path, data in after.items() if data})
    left = gone.keys() - moves.values(), come.keys() - moves.keys()
    return moves | _moves_by_sidecars(base, head, *map(sorted, left))


def _canonical_bytes(file: _File) -> bytes:
    """Return the same bytes for equal mappings, none for what is not a mapping."""
    if file.mapping is None:
        return b""
    return json.dumps(to_document(file.mapping), indent=1, sort_keys=True).encode()


def _moves_by_sidecars(
    base: Side, head: Side, gone: Sequence[str], come: Sequence[str]
) -> dict[str, str]:
    moves: dict[str, str] = {}
    for name in SIDECARS:
        before = {
            path: sidecar_ids(base, path, name) for path in gone if path not in moves.values()
        }
        for path in come:
            now = sidecar_ids(head, path, name) if path not in moves else {}
            was = next((one for one, there in before.items() if now and there == now), None)
            if was is not None:
                moves[path] = was
                del before[was]
    return moves


def _changed_paths(
    paths: Sequence[str],
    old: Mapping[str, _File],
    new: Mapping[str, _File],
    sides: tuple[Side, Side],
    was_at: Mapping[str, str],
    globs: Sequence[str] | None,
) -> Iterator[ChangedMapping]:
    for path in paths:
        before, after = old.get(was_at.get(path, path)), new.get(path)
        was = before.mapping if before else None
        stated = _is_stated(path, globs)
        if after is None:
            kind = sides[1].others.get(path)
            stands = stated or any(_leads_to_mapping(path, side) for side in sides)
            if (was is not None and path not in was_at.values()) or (kind and stands):
                found = ChangedMapping(path=path, status="removed", old=was)
                problem = Problem("", "unreadable", "a regular file", kind or "")
                yield replace(found, status="broken", problems=(problem,)) if kind else found
        elif after.mapping is not None or was is not None or stated or _claims_to_be_mapping(after):
            yield _remaining_mapping(path, was_at.get(path), was, after)
        elif globs is None and not _is_json(after) and _has_mapping_near(path, sides[1]):
            yield _remaining_mapping(path, None, None, after)


def _is_json(file: _File) -> bool:
    """Check that a file is JSON; one that is too large for a mapping is assumed to be."""
    try:
        json.loads((b"0" if file.data is None else file.data).decode("utf-8-sig"))
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _has_mapping_near(path: str, side: Side) -> bool:
    folder = path.rpartition("/")[0]
    return _any_mapping(side, lambda one: one != path and one.rpartition("/")[0] == folder)


def _leads_to_mapping(path: str, side: Side) -> bool:
    """Check whether a link leads to a mapping, a folder of some or a link, or lies beside one."""
    place = side.linked_place(path)
    if place is None:
        return False
    near = place in side.others or (is_json(path) and _has_mapping_near(path, side))
    return near or _any_mapping(side, lambda one: one == place or one.startswith(f"{place}/"))


def _any_mapping(side: Side, chosen: Callable[[str], bool]) -> bool:
    found = [one for one in sorted(side.files) if is_json(one) and chosen(one)]
    files = _read_files(side, found[:_MOST_NEIGHBOURS])
    return any(one.mapping is not None for one in files.values())


def _remaining_mapping(
    path: str, old_path: str | None, was: language.Mapping | None, after: _File
) -> ChangedMapping:
    status: Status = "added" if was is None else "renamed" if old_path else "modified"
    if after.mapping is None:
        status = "broken"
    return ChangedMapping(
        path=path,
        old_path=old_path,
        status=status,
        old=was,
        new=after.mapping,
        text=after.text,
        problems=() if after.mapping is not None else after.problems(path),
    )


def _claims_to_be_mapping(file: _File) -> bool:
    stated = _parse_object(file.data or b"")
    said = any(key in stated for key in ("text", "messages", "any_of"))
    return said and stated.get("version") == 2


def _with_sidecar_changes(one: ChangedMapping, base: Side, head: Side) -> ChangedMapping:
    """Add which sidecars changed, wherever they lay."""
    sides = ((base, one.old_path or one.path), (head, one.path))
    told = {name: [sidecar_ids(side, path, name) for side, path in sides] for name in SIDECARS}
    beside = frozenset(name for name, (old, new) in told.items() if old != new)
    if "sample" not in beside or one.new is None:
        return replace(one, beside=beside)
    was, now = (sample_extent(side, path) for side, path in sides)
    return replace(one, beside=beside, samples=(was, now))


# --- the lines of a mapping's file

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def pointer_lines(text: str) -> dict[str, int]:
    """Map JSON Pointers of a JSON text to line numbers; a member has the line of its key."""
    found: dict[str, int] = {}
    # The lists and objects that are being read: their pointers, and what is read in them: the
    # number of an element, the key of a member, None before a key.
    around: list[tuple[str, int | str | None]] = []
    for token, line in _tokens(text):
        outer, step = around[-1] if around else ("", "")
        if token in "]}":
            del around[-1:]
        elif token == ",":
            around[-1:] = [(outer, step + 1 if isinstance(step, int) else None)] if around else []
        elif step is None:
            around[-1] = outer, _unquote(token)
            found[pointer_to(outer, _unquote(token))] = line
        elif token != ":":
            pointer = pointer_to(outer, step) if around else ""
            found.setdefault(pointer, line)
            if token in "[{":
                around.append((pointer, 0 if token == "[" else None))
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
