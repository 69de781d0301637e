"""Show the files of a data set to a model: names, how they are read, beginnings, other roots."""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from ingot.agent.privacy import Door, Safe, SafeValue, redact
from ingot.agent.privacy.redaction import (
    clean_text,
    cut_middle,
    display_name,
    name_placeholder,
    share_path,
)
from ingot.agent.privacy.secrets import is_secret_name
from ingot.agent.proposing.llm.inventory import Size, render_value
from ingot.converters.errors import SourceError
from ingot.converters.rows import Json
from ingot.converters.sources import RootCandidate, Source, SourceFile
from ingot.converters.sources.facts import FileFacts
from ingot.converters.sources.formats.delimited import Dialect, OpenRecord, split_line
from ingot.converters.sources.sample import draw_sample
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.text_kinds import count_words, text_looks

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
class SeenFiles:
    """A beginning as records (spelling, cells), and roots with a row (None = unreadable)."""

    source: Source
    root: str | None
    beginning: tuple[tuple[str, list[Json]], ...]
    roots: tuple[tuple[RootCandidate, Json], ...]

    @property
    def rows(self) -> list[Json]:
        """The rows that were seen."""
        return [*chain(*(cells for _, cells in self.beginning)), *(row for _, row in self.roots)]

    def through(self, door: Door) -> "SafeFiles":
        """The same redacted, its names too."""
        source, facts = self.source, self.source.files[0].facts
        shown = [_show_record(door, text, cells, facts) for text, cells in self.beginning]
        return SafeFiles(
            share=door.share,
            names=tuple(_show_name(door, one.name) for one in source.files[:_FILES]),
            files=len(source.files),
            left_out=tuple(
                (_show_name(door, one.name), _show_name(door, one.why))
                for one in source.left_out[:_LEFT_OUT]
            ),
            left_out_count=len(source.left_out),
            read_as=Safe(_format_line(source, self.root, door.share)),
            doubtful=bool(source.guessed.to_document()),
            beginning=Safe("\n".join(shown)),
            roots=tuple(
                (Safe(share_path(one.path, door.share)), one, door.value(row))
                for one, row in self.roots
            ),
            lines=facts.format == "text" and source.spec.root is None,
        )


def _show_name(door: Door, name: str) -> Safe:
    """A name of a file, which is redacted with `raw` too."""
    return redact(door.text(name))


@dataclass(frozen=True, kw_only=True, slots=True)
class SafeFiles:
    """What may be shown of files; `lines` says that the rows are lines of text."""

    share: str
    names: tuple[Safe, ...]
    files: int
    left_out: tuple[tuple[Safe, Safe], ...]
    left_out_count: int
    read_as: Safe
    doubtful: bool
    beginning: Safe
    roots: tuple[tuple[Safe, RootCandidate, SafeValue], ...]
    lines: bool


def look_at_files(source: Source, root: str | None, most: int) -> SeenFiles:
    """Read what is told of the files beside the sample; at most `most` other roots."""
    first = source.files[0]
    raw = _read_beginning(first) if first.facts.format in ("csv", "text") else ""
    made = _table_records(raw, first.facts) if first.facts.format == "csv" else [(raw, [])]
    roots = _find_other_roots(source, root, most)
    return SeenFiles(source=source, root=root, beginning=tuple(made), roots=roots)


def _table_records(beginning: str, facts: FileFacts) -> Iterator[tuple[str, list[Json]]]:
    """The records of a table; the last one may be cut off."""
    dialect = Dialect(delimiter=facts.delimiter, quote=facts.quote)
    held: list[str] = []
    cells: list[str] | OpenRecord | None = None
    for line in beginning.splitlines():
        held.append(line)
        cells = split_line(line, dialect, cells if isinstance(cells, OpenRecord) else None)
        if not isinstance(cells, OpenRecord):
            yield "\n".join(held), _name_cells(cells, facts)
            held = []
    if isinstance(cells, OpenRecord):
        yield "\n".join(held), _name_cells([*cells.cells, "".join(cells.field)], facts)


def _name_cells(cells: Sequence[str], facts: FileFacts) -> list[Json]:
    """Every cell under its column; one that is in excess may be any column's."""
    excess = next(filter(is_secret_name, facts.columns), "")
    named = zip_longest(facts.columns[: len(cells)], cells, fillvalue=excess)
    return [{name: cell} for name, cell in named if cell != name]


def _show_record(door: Door, text: str, cells: Sequence[Json], facts: FileFacts) -> Safe:
    """A record as it may be shown: with `none` only its signs."""
    if door.share == "none":
        return Safe(_VALUE.sub("x", text))
    return door.text(text if door.share == "raw" else _hide_cells(text, cells, facts))


def _hide_cells(text: str, cells: Sequence[Json], facts: FileFacts) -> str:
    """A record without what the names of its columns make a secret."""
    quote, shown, done = facts.quote, "", 0
    for name, cell in (pair for one in cells for pair in one.items()):
        said = cell.replace(quote, quote * 2) if quote else cell
        start = text.find(said, done)
        if start >= 0:
            shown += text[done:start] + (name_placeholder(cell, name) or said)
            done = start + len(said)
    return shown + text[done:]


def file_lines(seen: SafeFiles, size: Size) -> list[str]:
    """The files, how they were read, the beginning as it lies there, and other roots."""
    told = [_file_names(seen, size), *_left_out_lines(seen), seen.read_as]
    if seen.beginning and size.lines and (seen.doubtful or size.words):
        told += ["Raw beginning of the first file:", *_raw_lines(seen, size)]
    return told + _other_root_lines(seen, size)


def _file_names(seen: SafeFiles, size: Size) -> str:
    most, chars = (_FILES, _MOST_NAME) if size.words else (2, _MOST_NAME // 2)
    names = [display_name(one, chars) for one in seen.names[:most]]
    more = [f"+{seen.files - most}"] if seen.files > most else []
    return f"{seen.files} file(s): " + ", ".join([*names, *more])


def _left_out_lines(seen: SafeFiles) -> list[str]:
    if not seen.left_out:
        return []
    told = [
        f"{display_name(name, _MOST_NAME)} ({display_name(why, _MOST_NAME)})"
        for name, why in seen.left_out
    ]
    more = seen.left_out_count - _LEFT_OUT
    return ["Not read: " + ", ".join([*told, *([f"+{more}"] if more > 0 else [])])]


def _format_line(source: Source, root: str | None, share: str) -> str:
    facts = source.files[0].facts
    guessed = set(source.guessed.to_document())
    told = [f"format {facts.format}{_guess_mark('format' in guessed)}"]
    if "encoding" in guessed:
        told.append(f"encoding {facts.encoding} (guessed)")
    if facts.format == "csv":
        told.append(f"delimiter {json.dumps(facts.delimiter)}{_guess_mark('delimiter' in guessed)}")
        told.append(f"quote {json.dumps(facts.quote)}{_guess_mark('quote' in guessed)}")
        told.append("first line = names" if facts.header else "no header (guessed)")
        if facts.header and are_data_like_names(facts.columns):
            told.append("THE NAMES LOOK LIKE DATA: perhaps there is no header")
    if source.spec.orient is not None:
        told.append(f"the file is a table (orient {source.spec.orient}), its rows are below")
    if root is not None:
        told.append(f'rows below are those of a root: answer "root": "{share_path(root, share)}"')
    return "Read as: " + ", ".join(told)


def _guess_mark(guessed: bool) -> str:
    return " (guessed)" if guessed else ""


def are_data_like_names(names: Sequence[str]) -> bool:
    """Whether the names of columns look like values of a row: numbers, times, long texts."""
    looks = {look for name in names if name.strip() for look in text_looks(name)}
    long = any(len(name) > _LONG_NAME or count_words(name) > 7 for name in names)
    return long or bool(looks & set(_NO_NAMES)) or len(set(names)) < len(names)


def _raw_lines(seen: SafeFiles, size: Size) -> list[str]:
    """The first lines as they lie in the file."""
    head, tail = min(2 * size.head, _RAW_LINE), min(size.tail, _RAW_LINE // 4)
    found = [line for line in seen.beginning.splitlines() if line.strip()][: size.lines]
    return ["| " + cut_middle(clean_text(line), head, tail) for line in found]


def _read_beginning(file: SourceFile) -> str:
    try:
        with file.open_raw() as raw:
            data = open_decompressed(raw, file.name).read(_RAW_BYTES)
    except SourceError:
        return ""
    return codecs.getincrementaldecoder(file.facts.encoding)("replace").decode(data)


def best_root(source: Source) -> str | None:
    """The root that a JSON object is shown with: the best candidate, None = the file as it is."""
    if source.spec.root is not None:
        return source.spec.root
    best = source.roots[0].path if source.roots else "$"
    return None if best == "$" else best


def _find_other_roots(
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
    return tuple((one, _first_row(source, one)) for one in others[:most])


def _first_row(source: Source, root: RootCandidate) -> Json:
    try:
        found = draw_sample(source.with_spec(replace(source.spec, root=root.path)), rows=1)
    except SourceError:
        return None
    return found.rows[0].value if found.rows else None


def _other_root_lines(seen: SafeFiles, size: Size) -> list[str]:
    if seen.lines:
        return ['Rows are lines. Other root: "$" = every file is one row with the key `text`.']
    small = replace(size, head=min(size.head, 40), tail=min(size.tail, 10), elements=1)
    lines = []
    for path, root, row in seen.roots[: size.roots]:
        count = "" if root.rows is None else f"{root.rows} rows, "
        told = row.json is not None and (root.path != "$" or size.words)
        shown = (
            f": {cut_middle(render_value(row, small, seen.share), _ROOT_ROW, 0)}" if told else ""
        )
        lines.append(f'- "{path}" ({count}{root.why}){shown}')
    return ["Other roots:", *lines] if lines else []
