"""What is told of the files: names, what the reader guessed, raw lines, and other roots."""

import codecs
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingot.agent.mappers.showing.cleaning import clean, cut, shown_name
from ingot.agent.mappers.showing.rows import rendered
from ingot.agent.mappers.showing.sharing import shared_path, shared_text
from ingot.agent.mappers.showing.sizes import Size
from ingot.agent.redaction import redact
from ingot.converters.errors import SourceError
from ingot.converters.readers import RootCandidate, Source, SourceFile
from ingot.converters.readers.compression import decompressed
from ingot.converters.rows import Json
from ingot.converters.sample import draw
from ingot.converters.text_kinds import looks_of, words_in

_RAW_BYTES = 16 << 10
_MOST_NAME = 80
_FILES = 4
_LEFT_OUT = 3
_RAW_LINE = 200  # characters of the beginning of a raw line
_ROOT_ROW = 240  # characters of the row of another root
_NO_NAMES = ("number", "time", "url", "hash", "uuid", "email", "sentence")
_LONG_NAME = 40
_VALUE = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What is read of the files once: how the first begins (tables and texts), and other roots.

    `roots` are further places of rows, each with one of its rows (None = unreadable).
    """

    beginning: str
    roots: tuple[tuple[RootCandidate, Json], ...]


def look(source: Source, root: str | None, most: int) -> Seen:
    """Read what is told of the files beside the sample; at most `most` other roots."""
    first = source.files[0]
    raw = _beginning(first) if first.facts.format in ("csv", "text") else ""
    return Seen(beginning=raw, roots=_roots_beside(source, root, most))


def lines(source: Source, seen: Seen, size: Size, share: str, root: str | None) -> list[str]:
    """The files, how they were read, the beginning as it lies there, and other roots."""
    told = [_files(source, size), *_left_out(source), _read(source, root, share)]
    doubtful = bool(source.guessed.to_document()) or size.words
    if seen.beginning and size.lines and doubtful:
        told += ["Raw beginning of the first file:", *_raw(seen.beginning, size, share)]
    return told + _other_roots(source, seen, size, share)


def _files(source: Source, size: Size) -> str:
    most, chars = (_FILES, _MOST_NAME) if size.words else (2, _MOST_NAME // 2)
    names = [told_name(file.name, chars) for file in source.files[:most]]
    more = [f"+{len(source.files) - most}"] if len(source.files) > most else []
    return f"{len(source.files)} file(s): " + ", ".join([*names, *more])


def told_name(name: str, most: int) -> str:
    """A file's name; it is data too."""
    return shown_name(redact(name), most)


def _left_out(source: Source) -> list[str]:
    if not source.left_out:
        return []
    told = [
        f"{told_name(one.name, _MOST_NAME)} ({told_name(one.why, _MOST_NAME)})"
        for one in source.left_out[:_LEFT_OUT]
    ]
    more = len(source.left_out) - _LEFT_OUT
    return ["Not read: " + ", ".join([*told, *([f"+{more}"] if more > 0 else [])])]


def _read(source: Source, root: str | None, share: str) -> str:
    """Format and dialect, guesses marked as guesses."""
    facts = source.files[0].facts
    guessed = set(source.guessed.to_document())
    told = [f"format {facts.format}{_guess('format' in guessed)}"]
    if "encoding" in guessed:
        told.append(f"encoding {facts.encoding} (guessed)")
    if facts.format == "csv":
        told.append(f"delimiter {json.dumps(facts.delimiter)}{_guess('delimiter' in guessed)}")
        told.append(f"quote {json.dumps(facts.quote)}{_guess('quote' in guessed)}")
        told.append("first line = names" if facts.header else "no header (guessed)")
        if facts.header and names_like_data(facts.columns):
            told.append("THE NAMES LOOK LIKE DATA: perhaps there is no header")
    if root is not None:
        told.append(f'rows below are those of a root: answer "root": "{shared_path(root, share)}"')
    return "Read as: " + ", ".join(told)


def _guess(guessed: bool) -> str:
    return " (guessed)" if guessed else ""


def names_like_data(names: Sequence[str]) -> bool:
    """Whether the names of columns look like values of a row: numbers, times, long texts."""
    looks = {look for name in names if name.strip() for look in looks_of(name)}
    long = any(len(name) > _LONG_NAME or words_in(name) > 7 for name in names)
    return long or bool(looks & set(_NO_NAMES)) or len(set(names)) < len(names)


def _raw(beginning: str, size: Size, share: str) -> list[str]:
    """The first lines as they lie in the file; with nothing shared only their signs."""
    head, tail = min(2 * size.head, _RAW_LINE), min(size.tail, _RAW_LINE // 4)
    found = [line for line in beginning.splitlines() if line.strip()][: size.lines]
    if share == "none":
        return ["| " + cut(clean(_VALUE.sub("x", line)), head, tail) for line in found]
    return ["| " + cut(clean(shared_text("", line, share)), head, tail) for line in found]


def _beginning(file: SourceFile) -> str:
    try:
        with file.open_raw() as raw:
            data = decompressed(raw, file.name).read(_RAW_BYTES)
    except SourceError:
        return ""
    return codecs.getincrementaldecoder(file.facts.encoding)("replace").decode(data)


def best_root(source: Source) -> str | None:
    """The root that a JSON object is shown with: the best candidate, None = the file as it is."""
    if source.spec.root is not None:
        return source.spec.root
    best = source.roots[0].path if source.roots else "$"
    return None if best == "$" else best


def _roots_beside(
    source: Source, shown: str | None, most: int
) -> tuple[tuple[RootCandidate, Json], ...]:
    """Places inside one of the records of an object that is keyed by id are none."""
    inside = (shown or "").removesuffix("*") if (shown or "").endswith("*") else None
    others = [
        one
        for one in source.roots
        if one.path != (shown or "$")
        and (inside is None or one.path == "$" or not one.path.startswith(inside))
    ]
    return tuple((one, _sample_row(source, one)) for one in others[:most])


def _sample_row(source: Source, root: RootCandidate) -> Json:
    try:
        found = draw(source.with_spec(replace(source.spec, root=root.path)), rows=1)
    except SourceError:
        return None
    return found.rows[0].value if found.rows else None


def _other_roots(source: Source, seen: Seen, size: Size, share: str) -> list[str]:
    """What is told of the roots beside: rows, kind, and the beginning of a row."""
    if source.files[0].facts.format == "text" and source.spec.root is None:
        return ['Rows are lines. Other root: "$" = every file is one row with the key `text`.']
    told = [_root_line(root, row, size, share) for root, row in seen.roots[: size.roots]]
    return ["Other roots:", *told] if told else []


def _root_line(root: RootCandidate, row: Json, size: Size, share: str) -> str:
    count = "" if root.rows is None else f"{root.rows} rows, "
    small = replace(size, head=min(size.head, 40), tail=min(size.tail, 10), elements=1)
    told = row is not None and (root.path != "$" or size.words)
    shown = ": " + cut(rendered(row, small, share), _ROOT_ROW, 0) if told else ""
    return f'- "{shared_path(root.path, share)}" ({count}{root.why}){shown}'
