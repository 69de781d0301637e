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
    with_sidecars = head.files.keys() & {sidecar_owner(path) for path in changed}
    untouched = with_sidecars - {one.path for one in mappings}
    for path, one in _read_files(head, sorted(untouched)).items():
        if one.mapping is not None:  # only a sidecar of it changed
            mappings.append(_remaining_mapping(path, None, one.mapping, one))
    placed = (_with_sidecar_changes(one, base, head) for one in mappings if _is_chosen(one, globs))
    return sorted(placed, key=lambda one: one.path)


def _is_chosen(mapping: ChangedMapping, globs: Sequence[str] | None) -> bool:
    return any(
        path is not None and matches_globs(path, globs) for path in (mapping.path, mapping.old_path)
    )


def compare_files(old: Side, old_path: str, new: Side, new_path: str) -> ChangedMapping:
    """Compare two files."""
    before, after = _read_single(old, old_path), _read_single(new, new_path)
    if before.mapping is None:
        raise MappingError(old.name, before.problems(old_path))
    changed = _remaining_mapping(new_path, old_path, before.mapping, after)
    return changed if changed.status == "broken" else replace(changed, status="modified")


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
        problem = "no JSON file of either side is of this name"
        raise RevisionError(f"--mappings {', '.join(globs)!r}", problem, hint)


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
    present = [path for path in paths if path in side.files]
    contents = side.contents(present, MAX_BYTES)
    return {path: _parse_file(path, contents.get(path)) for path in present}


def _parse_file(path: str, data: bytes | None) -> _File:
    if data is None or not _KEYS.issuperset(document := _parse_object(data)) or not document:
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
    removed = {
        path: one
        for path, one in old.items()
        if one.mapping is not None and _object_id_at(head, path) is None
    }
    added = {path: one for path, one in new.items() if path not in old and one.data}
    moves: dict[str, str] = {}
    for spell in (_canonical_bytes, lambda one: one.data or b""):
        before = {path: spell(one) for path, one in removed.items() if path not in moves.values()}
        after = {path: spell(one) for path, one in added.items() if path not in moves}
        moves |= find_renames(before, {path: data for path, data in after.items() if data})
    unmatched = removed.keys() - moves.values(), added.keys() - moves.keys()
    return moves | _moves_by_sidecars(base, head, *map(sorted, unmatched))


def _canonical_bytes(file: _File) -> bytes:
    """Return the same bytes for equal mappings, none for what is not a mapping."""
    if file.mapping is None:
        return b""
    return json.dumps(to_document(file.mapping), indent=1, sort_keys=True).encode()


def _moves_by_sidecars(
    base: Side, head: Side, removed: Sequence[str], added: Sequence[str]
) -> dict[str, str]:
    moves: dict[str, str] = {}
    for name in SIDECARS:
        before = {
            path: sidecar_ids(base, path, name) for path in removed if path not in moves.values()
        }
        for path in added:
            ids = sidecar_ids(head, path, name) if path not in moves else {}
            old_path = next(
                (one for one, old_ids in before.items() if ids and old_ids == ids), None
            )
            if old_path is not None:
                moves[path] = old_path
                del before[old_path]
    return moves


def _changed_paths(
    paths: Sequence[str],
    old: Mapping[str, _File],
    new: Mapping[str, _File],
    sides: tuple[Side, Side],
    old_paths: Mapping[str, str],
    globs: Sequence[str] | None,
) -> Iterator[ChangedMapping]:
    for path in paths:
        before, after = old.get(old_paths.get(path, path)), new.get(path)
        old_mapping = before.mapping if before else None
        is_stated = _is_stated(path, globs)
        if after is None:
            kind = sides[1].others.get(path)
            is_mapping = is_stated or any(_leads_to_mapping(path, side) for side in sides)
            if (old_mapping is not None and path not in old_paths.values()) or (
                kind and is_mapping
            ):
                removal = ChangedMapping(path=path, status="removed", old=old_mapping)
                problem = Problem("", "unreadable", "a regular file", kind or "")
                yield replace(removal, status="broken", problems=(problem,)) if kind else removal
        elif (
            after.mapping is not None
            or old_mapping is not None
            or is_stated
            or _claims_to_be_mapping(after)
        ):
            yield _remaining_mapping(path, old_paths.get(path), old_mapping, after)
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
    target = side.linked_place(path)
    if target is None:
        return False
    is_near = target in side.others or (is_json(path) and _has_mapping_near(path, side))
    return is_near or _any_mapping(side, lambda one: one == target or one.startswith(f"{target}/"))


def _any_mapping(side: Side, chosen: Callable[[str], bool]) -> bool:
    candidates = [one for one in sorted(side.files) if is_json(one) and chosen(one)]
    files = _read_files(side, candidates[:_MOST_NEIGHBOURS])
    return any(one.mapping is not None for one in files.values())


def _remaining_mapping(
    path: str, old_path: str | None, old_mapping: language.Mapping | None, after: _File
) -> ChangedMapping:
    status: Status = "added" if old_mapping is None else "renamed" if old_path else "modified"
    if after.mapping is None:
        status = "broken"
    return ChangedMapping(
        path=path,
        old_path=old_path,
        status=status,
        old=old_mapping,
        new=after.mapping,
        text=after.text,
        problems=() if after.mapping is not None else after.problems(path),
    )


def _claims_to_be_mapping(file: _File) -> bool:
    document = _parse_object(file.data or b"")
    has_body = any(key in document for key in ("text", "messages", "any_of"))
    return has_body and document.get("version") == 2


def _with_sidecar_changes(mapping: ChangedMapping, base: Side, head: Side) -> ChangedMapping:
    """Add which sidecars changed, wherever they lay."""
    sides = ((base, mapping.old_path or mapping.path), (head, mapping.path))
    ids_by_name = {
        name: [sidecar_ids(side, path, name) for side, path in sides] for name in SIDECARS
    }
    changed = frozenset(name for name, (old, new) in ids_by_name.items() if old != new)
    if "sample" not in changed or mapping.new is None:
        return replace(mapping, beside=changed)
    old_extent, new_extent = (sample_extent(side, path) for side, path in sides)
    return replace(mapping, beside=changed, samples=(old_extent, new_extent))


# --- the lines of a mapping's file

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def pointer_lines(text: str) -> dict[str, int]:
    """Map JSON Pointers of a JSON text to line numbers; a member has the line of its key."""
    lines: dict[str, int] = {}
    # The lists and objects that are being read: their pointers, and what is read in them: the
    # number of an element, the key of a member, None before a key.
    open_parts: list[tuple[str, int | str | None]] = []
    for token, line in _tokens(text):
        outer, step = open_parts[-1] if open_parts else ("", "")
        if token in "]}":
            del open_parts[-1:]
        elif token == ",":
            open_parts[-1:] = (
                [(outer, step + 1 if isinstance(step, int) else None)] if open_parts else []
            )
        elif step is None:
            open_parts[-1] = outer, _unquote(token)
            lines[pointer_to(outer, _unquote(token))] = line
        elif token != ":":
            pointer = pointer_to(outer, step) if open_parts else ""
            lines.setdefault(pointer, line)
            if token in "[{":
                open_parts.append((pointer, 0 if token == "[" else None))
    return lines


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, done = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", done, match.start())
        done = match.start()
        yield match[0], line


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
