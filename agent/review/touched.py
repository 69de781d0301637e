"""Which mappings two sides have in different form, and what each of them is on both sides."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ingot.agent.review.moving import Form, moved
from ingot.agent.review.revisions import MOST_MAPPING, Side
from ingot.agent.review.sidecars import SIDECARS, Extent, extent, ids, owner_of, owners
from ingot.converters.errors import MappingError, Problem, RevisionError
from ingot.converters.mapping import read
from ingot.converters.readers.globs import chosen
from ingot.converters.rows import Json

Status = Literal["added", "modified", "renamed", "removed", "broken"]
Document = dict[str, Json]

# The keys of version 1 and 2; an object with others is no mapping.
_WHOLE = ("version", "source", "group", "any_of", "provenance")
_KEYS = frozenset((*_WHOLE, "each", "where", "text", "messages", "system", "tools", "meta"))
_MOST_NEIGHBOURS = 500  # files of a folder that are looked at for a mapping


@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """A mapping that is not the same on both sides.

    Attributes:
        path: where it lies, or lay if it is removed.
        old_path: where it lay before, None where that is the same place.
        status: what became of it; `broken`: the new file is no mapping.
        old, new: the documents, None where there is none.
        text: the new file, "" where it is no text.
        problems: why a broken one is no mapping.
        beside: what lies beside it and was changed: `sample`, `golden`.
        samples: how much there was and is of a pinned sample that was changed.
    """

    path: str
    status: Status
    old_path: str | None = None
    old: Document | None = None
    new: Document | None = None
    text: str = ""
    problems: tuple[Problem, ...] = ()
    beside: frozenset[str] = frozenset()
    samples: tuple[Extent | None, Extent | None] = (None, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """A file of one side: its bytes, None where it is too large for a mapping, and its document."""

    data: bytes | None
    document: Document | None = None

    @property
    def text(self) -> str:
        return (self.data or b"").decode("utf-8-sig", errors="replace")

    def problems(self, path: str) -> tuple[Problem, ...]:
        """Why it is no mapping."""
        if self.data is None:
            large = Problem("", "too_large", f"at most {MOST_MAPPING >> 20} MiB", "more")
            return (large,)
        try:
            read(self.data, where=path)
        except MappingError as error:
            return error.problems
        return ()


def touched(base: Side, head: Side, globs: Sequence[str] | None) -> list[Touched]:
    """The mappings that differ, by path.

    Args:
        base: as it was.
        head: as it is.
        globs: which JSON files to look at; every one of these has to be a mapping. None = those
            that hold a mapping, or say that they do (`"version": 2`), and those of no JSON in a
            folder that holds mappings.

    Raises:
        RevisionError: a side cannot be read, or the globs choose no file of either.
    """
    _anything(base, head, globs)
    changed = {
        path
        for path in {*base.files, *head.files, *base.others, *head.others}
        if _found(base, path) != _found(head, path)
    }
    paths = sorted(path for path in changed if _may_be_mapping(path, base, head, globs))
    old, new = _files(base, paths), _files(head, paths)
    told = [*_both(paths, old, new, head, _moved(old, new, base, head), globs)]
    seen = {one.path for one in told}
    untouched = [path for path in owners(changed) if path not in seen and path in head.files]
    told += _only_beside(head, sorted(untouched))
    placed = (_with_beside(one, base, head) for one in told if _chosen(one, globs))
    return sorted(placed, key=lambda one: one.path)


def _chosen(one: Touched, globs: Sequence[str] | None) -> bool:
    """Whether a mapping is asked for; one that was renamed also by where it lay."""
    return chosen(one.path, globs) or (one.old_path is not None and chosen(one.old_path, globs))


def between(old: Side, old_path: str, new: Side, new_path: str) -> Touched:
    """Two files by themselves as one change.

    Args:
        old: the side with the old file.
        old_path: its path there.
        new: the side with the new file.
        new_path: its path there.

    Raises:
        RevisionError: one of them is not there.
        MappingError: the old one is no mapping.
    """
    before, after = _single(old, old_path), _single(new, new_path)
    if before.document is None:
        raise MappingError(old.name, before.problems(old_path))
    return Touched(
        path=new_path,
        old_path=old_path,
        status="broken" if after.document is None else "modified",
        old=before.document,
        new=after.document,
        text=after.text,
        problems=() if after.document else after.problems(new_path),
    )


def _single(side: Side, path: str) -> _File:
    if path not in side.files:
        raise RevisionError(side.name, "no such file", "check the spelling")
    return _files(side, [path])[path]


def _found(side: Side, path: str) -> str | None:
    return side.files.get(path) or side.others.get(path)


def _anything(base: Side, head: Side, globs: Sequence[str] | None) -> None:
    """Raise RevisionError where stated globs choose nothing: they would be kept by nobody."""
    paths = {*base.files, *head.files, *base.others, *head.others}
    if globs is not None and not any(_stated(path, globs) for path in paths):
        hint = "check its spelling; paths begin at the top of the repository"
        said = "no JSON file of either side is of this name"
        raise RevisionError(f"--mappings {', '.join(globs)!r}", said, hint)


def _stated(path: str, globs: Sequence[str] | None) -> bool:
    """Whether a file is one of those that have to be mappings."""
    return globs is not None and path.endswith(".json") and chosen(path, globs)


def _may_be_mapping(path: str, base: Side, head: Side, globs: Sequence[str] | None) -> bool:
    if not path.endswith(".json"):
        return False
    owner = owner_of(path)
    if _stated(path, globs):
        side = base if _found(head, path) is None else head
        return owner is None or owner not in side.files
    return owner is None and path.rpartition("/")[2] != "manifest.json"


def _files(side: Side, paths: Collection[str]) -> dict[str, _File]:
    """The files of a side that are there, those too large for a mapping without their bytes."""
    there = [path for path in paths if path in side.files]
    found = side.contents(there, MOST_MAPPING)
    return {path: _file(path, found.get(path)) for path in there}


def _file(path: str, data: bytes | None) -> _File:
    if data is None or not _KEYS.issuperset(stated := _object(data)) or not stated:
        return _File(data=data)
    try:
        return _File(data=data, document=read(data, where=path))
    except MappingError:
        return _File(data=data)


def _object(data: bytes) -> Document:
    """The object that is in a file, an empty one where there is none; looked at before all else."""
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _moved(
    old: Mapping[str, _File], new: Mapping[str, _File], base: Side, head: Side
) -> dict[str, str]:
    """New path -> old path of the mappings that were renamed."""
    gone = {
        path: _form(one)
        for path, one in old.items()
        if one.document is not None and _found(head, path) is None
    }
    come = {path: _form(one) for path, one in new.items() if path not in old and one.data}
    return moved(gone, come, base, head)


def _form(file: _File) -> Form:
    return Form(document=file.document, data=file.data or b"")


def _both(
    paths: Sequence[str],
    old: Mapping[str, _File],
    new: Mapping[str, _File],
    head: Side,
    was_at: Mapping[str, str],
    globs: Sequence[str] | None,
) -> Iterator[Touched]:
    for path in paths:
        before, after = old.get(was_at.get(path, path)), new.get(path)
        was = before.document if before else None
        stated = _stated(path, globs)
        if after is None:
            kind = head.others.get(path)
            if (was is not None and path not in was_at.values()) or (stated and kind):
                yield _gone(path, was, kind)
        elif after.document is not None or was is not None or stated or _claims(after):
            yield _kept(path, was_at.get(path), was, after)
        elif globs is None and not _is_json(after) and _among_mappings(path, head):
            yield _kept(path, None, None, after)


def _is_json(file: _File) -> bool:
    """Whether a file is JSON; one that is too large for a mapping is taken for it."""
    try:
        json.loads((b"0" if file.data is None else file.data).decode("utf-8-sig"))
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _among_mappings(path: str, head: Side) -> bool:
    """Whether another file of the same folder is a mapping."""
    folder = path.rpartition("/")[0]
    near = [one for one in head.files if one != path and one.rpartition("/")[0] == folder]
    beside = [one for one in sorted(near) if one.endswith(".json")][:_MOST_NEIGHBOURS]
    return any(one.document is not None for one in _files(head, beside).values())


def _gone(path: str, was: Document | None, kind: str | None) -> Touched:
    if kind is None:
        return Touched(path=path, status="removed", old=was)
    problem = Problem("", "unreadable", "a regular file", kind)
    return Touched(path=path, status="broken", old=was, problems=(problem,))


def _kept(path: str, old_path: str | None, was: Document | None, after: _File) -> Touched:
    status: Status = "added" if was is None else "renamed" if old_path else "modified"
    if after.document is None:
        status = "broken"
    return Touched(
        path=path,
        old_path=old_path,
        status=status,
        old=was,
        new=after.document,
        text=after.text,
        problems=() if after.document else after.problems(path),
    )


def _claims(file: _File) -> bool:
    """Whether a file that is no mapping says that it is one."""
    stated = _object(file.data or b"")
    said = any(key in stated for key in ("text", "messages", "any_of"))
    return said and stated.get("version") == 2


def _only_beside(head: Side, paths: Sequence[str]) -> Iterator[Touched]:
    """Mappings that are what they were, while something beside them was changed."""
    for path, one in _files(head, paths).items():
        if one.document is not None:
            yield Touched(
                path=path, status="modified", old=one.document, new=one.document, text=one.text
            )


def _with_beside(one: Touched, base: Side, head: Side) -> Touched:
    """The mapping with what lies beside it and is not what it was, wherever that lay."""
    sides = ((base, one.old_path or one.path), (head, one.path))
    told = {name: [ids(side, path, name) for side, path in sides] for name in SIDECARS}
    beside = frozenset(name for name, (old, new) in told.items() if old != new)
    if "sample" not in beside or one.new is None:
        return replace(one, beside=beside)
    was, now = (extent(side, path) for side, path in sides)
    return replace(one, beside=beside, samples=(was, now))
