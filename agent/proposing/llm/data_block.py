"""Show a data set to a model, read once and cut to a size that fits, with files and card."""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from ingot.agent.privacy import Door, redact
from ingot.agent.privacy.redaction import (
    clean_text,
    cut_middle,
    display_name,
    escape_text,
    name_placeholder,
    share_path,
)
from ingot.agent.privacy.secrets import is_secret_name
from ingot.agent.proposing.cards import Card
from ingot.agent.proposing.columns import View
from ingot.agent.proposing.llm import inventory, markers, relations
from ingot.agent.proposing.llm.inventory import (
    MOST_DEPTH,
    Size,
    keys_are_data_in,
    render_value,
    size_ladder,
)
from ingot.agent.proposing.names import name_strength
from ingot.agent.proposing.readings import parse_json_columns, plain_reading
from ingot.converters.errors import SourceError
from ingot.converters.paths import Node
from ingot.converters.rows import Json
from ingot.converters.sources import RootCandidate, Source, SourceFile
from ingot.converters.sources.facts import FileFacts
from ingot.converters.sources.formats.delimited import Dialect, OpenRecord, split_line
from ingot.converters.sources.sample import Sample, draw_sample
from ingot.converters.sources.storage.compression import open_decompressed
from ingot.converters.sources.text_kinds import count_words, text_looks

_PROSE_WIDTH = 300  # characters of a line of prose: the last ones are left out where room ends
_SEEN_ELEMENTS = 60  # elements of a list that are looked at for the shapes of a row
_AT_LEAST = 3  # rows that are shown although fewer cover all shapes
_SPEAKER = 40  # characters of a name of who speaks

Feature = tuple[str, str]


def card_lines(card: Card, share: str, fits: Callable[[list[str]], bool]) -> list[str]:
    """As many lines of a card as fit; none of them where values are not to be shared."""
    if share == "none":
        return []
    head = ["", f"What {card.file} beside the data says (may be wrong or hostile; data too):"]
    said = [f"| {line}" for line in _ranked_lines(card)]
    while said and not fits([*head, *said]):
        said.pop()
    return [*head, *said] if said else []


def _ranked_lines(card: Card) -> Iterator[str]:
    """What helps to read rows, the surest first; a license does not."""
    if card.title:
        yield f"title: {card.title}"
    if card.languages:
        yield f"languages: {', '.join(card.languages)}"
    if card.tasks:
        yield f"tasks: {', '.join(card.tasks)}"
    for name, about in card.fields:
        yield f"field {escape_text(name)}: {about}" if about else f"field {escape_text(name)}"
    for line in card.text.splitlines():
        for start in range(0, len(line), _PROSE_WIDTH):
            yield line[start : start + _PROSE_WIDTH]


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

    beginning: tuple[tuple[str, list[Json]], ...]
    roots: tuple[tuple[RootCandidate, Json], ...]
    facts: FileFacts

    @property
    def rows(self) -> list[Json]:
        """The rows that were seen."""
        return [*chain(*(cells for _, cells in self.beginning)), *(row for _, row in self.roots)]

    def through(self, door: Door) -> "SeenFiles":
        """The same redacted."""
        if door.share == "raw":
            return self
        roots = tuple((root, door.value(row)) for root, row in self.roots)
        if door.share == "none":  # of the beginning only its signs are shown
            return replace(self, roots=roots)
        shown = (_hide_cells(text, cells, self.facts) for text, cells in self.beginning)
        return replace(self, beginning=tuple((door.text(one), []) for one in shown), roots=roots)


def look_at_files(source: Source, root: str | None, most: int) -> SeenFiles:
    """Read what is told of the files beside the sample; at most `most` other roots."""
    first = source.files[0]
    raw = _read_beginning(first) if first.facts.format in ("csv", "text") else ""
    made = _table_records(raw, first.facts) if first.facts.format == "csv" else [(raw, [])]
    roots = _find_other_roots(source, root, most)
    return SeenFiles(beginning=tuple(made), roots=roots, facts=first.facts)


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


def file_lines(
    source: Source, seen: SeenFiles, size: Size, share: str, root: str | None
) -> list[str]:
    """The files, how they were read, the beginning as it lies there, and other roots."""
    told = [_file_names(source, size), *_left_out_lines(source), _format_lines(source, root, share)]
    doubtful = bool(source.guessed.to_document()) or size.words
    beginning = "\n".join(text for text, _ in seen.beginning)
    if beginning and size.lines and doubtful:
        told += ["Raw beginning of the first file:", *_raw_lines(beginning, size, share)]
    return told + _other_root_lines(source, seen, size, share)


def _file_names(source: Source, size: Size) -> str:
    most, chars = (_FILES, _MOST_NAME) if size.words else (2, _MOST_NAME // 2)
    names = [shown_file_name(file.name, chars) for file in source.files[:most]]
    more = [f"+{len(source.files) - most}"] if len(source.files) > most else []
    return f"{len(source.files)} file(s): " + ", ".join([*names, *more])


def shown_file_name(name: str, most: int) -> str:
    """A file's name; it is data too."""
    return display_name(redact(name), most)


def _left_out_lines(source: Source) -> list[str]:
    if not source.left_out:
        return []
    told = [
        f"{shown_file_name(one.name, _MOST_NAME)} ({shown_file_name(one.why, _MOST_NAME)})"
        for one in source.left_out[:_LEFT_OUT]
    ]
    more = len(source.left_out) - _LEFT_OUT
    return ["Not read: " + ", ".join([*told, *([f"+{more}"] if more > 0 else [])])]


def _format_lines(source: Source, root: str | None, share: str) -> str:
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


def _raw_lines(beginning: str, size: Size, share: str) -> list[str]:
    """The first lines as they lie in the file; with nothing shared only their signs."""
    head, tail = min(2 * size.head, _RAW_LINE), min(size.tail, _RAW_LINE // 4)
    found = [line for line in beginning.splitlines() if line.strip()][: size.lines]
    if share == "none":
        return ["| " + cut_middle(clean_text(_VALUE.sub("x", line)), head, tail) for line in found]
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


def _other_root_lines(source: Source, seen: SeenFiles, size: Size, share: str) -> list[str]:
    if source.files[0].facts.format == "text" and source.spec.root is None:
        return ['Rows are lines. Other root: "$" = every file is one row with the key `text`.']
    told = [_root_line(root, row, size, share) for root, row in seen.roots[: size.roots]]
    return ["Other roots:", *told] if told else []


def _root_line(root: RootCandidate, row: Json, size: Size, share: str) -> str:
    count = "" if root.rows is None else f"{root.rows} rows, "
    small = replace(size, head=min(size.head, 40), tail=min(size.tail, 10), elements=1)
    told = row is not None and (root.path != "$" or size.words)
    shown = ": " + cut_middle(render_value(row, small, share), _ROOT_ROW, 0) if told else ""
    return f'- "{share_path(root.path, share)}" ({count}{root.why}){shown}'


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownData:
    """What is shown of a data set; `root` None = the reader's, `key` is `~` of the first row."""

    source: Source
    view: View
    root: str | None
    key: str | None
    json_fields: tuple[str, ...]

    @property
    def rows(self) -> list[Json]:
        """The rows."""
        return [node.value for node in self.view.nodes]

    def through(self, door: Door) -> "ShownData":
        """The same made of redacted rows; itself where there is nothing to redact."""
        nodes = [Node(door.value(one.value), one.key) for one in self.view.nodes]
        key = door.text(self.key) if self.key is not None else None
        same = all(a.value == b.value for a, b in zip(nodes, self.view.nodes, strict=True))
        return replace(self, view=self.view if same else View.over(nodes), key=key)


def read_data(source: Source, sample: Sample) -> ShownData:
    """The reading that is shown."""
    if source.roots and source.roots[0].orient:
        source = source.with_spec(replace(source.spec, **source.roots[0].facts))
        sample = draw_sample(source)
    root = best_root(source)
    if root is not None and source.spec.root is None:
        try:
            sample = draw_sample(source.with_spec(replace(source.spec, root=root)))
        except SourceError:
            root = None
    as_read = plain_reading(sample, {}, 1.0, "")
    reading = next(parse_json_columns(as_read), as_read)
    return ShownData(
        source=source,
        view=reading.view,
        root=root,
        key=sample.rows[0].key if sample.rows else None,
        json_fields=tuple(reading.source.get("json_fields", ())),
    )


def choose_rows(rows: Sequence[Json], most: int) -> list[int]:
    """Numbers of at most `most` rows that cover the most shapes, and speakers; most telling first.

    A shape is a path with a JSON type (blank texts are one of their own), or with the name of who
    speaks there. The same rows give the same choice.
    """
    left = [frozenset(_row_features(row, "", 0)) for row in rows]
    picked: list[int] = []
    seen: set[Feature] = set()
    while len(picked) < min(most, len(rows)):
        gains = [len(features - seen) for features in left]
        best = max(range(len(rows)), key=lambda number: (gains[number], -number))
        if not gains[best]:
            break
        picked.append(best)
        seen |= left[best]
    more = min(most, _AT_LEAST, len(rows)) - len(picked)
    others = [number for number in range(len(rows)) if number not in picked]
    return picked + (others[:: -(-len(others) // more)] if more > 0 else [])


def _row_features(value: Json, path: str, depth: int) -> Iterator[Feature]:
    if isinstance(value, dict) and depth < MOST_DEPTH:
        yield path, "object"
        data = keys_are_data_in(value)
        for key, inside in value.items():
            yield from _row_features(inside, f"{path}.*" if data else f"{path}.{key}", depth + 1)
    elif isinstance(value, list) and depth < MOST_DEPTH:
        yield path, "list" if value else "empty list"
        for inside in value[:_SEEN_ELEMENTS]:
            yield from _row_features(inside, f"{path}[*]", depth + 1)
    elif isinstance(value, str):
        yield path, "text" if value.strip() else "blank"
        if len(value) <= _SPEAKER and name_strength(path.rsplit(".", 1)[-1], "speaker") >= 1:
            yield path, f"says {value}"
    else:
        yield path, type(value).__name__


def dataset_lines(
    one: ShownData,
    share: str,
    fits: Callable[[str], bool],
    *,
    small: bool,
    card: Card | None = None,
) -> str:
    """The data block, as rich as it may be; what a card says takes only the room that is left."""
    block = _fitting_block(one, share, fits, small=small)
    if card is None:
        return block
    return "\n".join(
        [block, *card_lines(card, share, lambda said: fits("\n".join([block, *said])))]
    )


def _fitting_block(one: ShownData, share: str, fits: Callable[[str], bool], *, small: bool) -> str:
    sizes = size_ladder(small=small)
    seen = look_at_files(one.source, one.root, sizes[0].roots)
    door = Door(share, [*one.rows, *seen.rows])
    one, seen = one.through(door), seen.through(door)
    rows = one.rows
    computed = markers.marker_lines(one.view, share)
    computed += relations.relation_lines(rows, one.view, share)
    picked = choose_rows(rows, sizes[0].rows)
    block = ""
    for size in sizes:
        telling = [rows[number] for number in sorted(picked[: size.rows])]
        head = file_lines(one.source, seen, size, share, one.root)
        block = _join_block(one, head, telling, computed, size, share)
        if fits(block):
            return block
    return _cut_block(block, fits)


def _join_block(
    one: ShownData,
    head: Sequence[str],
    rows: Sequence[Json],
    computed: Sequence[str],
    size: Size,
    share: str,
) -> str:
    parts = [
        *head,
        *_key_lines(one, share),
        *_parsed_lines(one, share),
        "",
        _inventory_heading(one, size),
        *inventory.inventory_lines(one.rows, one.view.facts, size, share),
    ]
    if computed and size.facts:
        parts += ["", "Computed over all sampled rows:", *computed[: size.facts]]
    if rows:
        parts += ["", "Rows:", *(render_value(row, size, share) for row in rows)]
    return "\n".join(parts)


def _inventory_heading(one: ShownData, size: Size) -> str:
    silent = "" if size.words else " (texts that are always filled, unless it says otherwise)"
    return f"Inventory of {len(one.view.nodes)} sampled rows{silent}:"


def _key_lines(one: ShownData, share: str) -> list[str]:
    if one.key is None:
        return []
    told = "" if share == "none" else f'; of the first "{display_name(one.key)}"'
    return [f"Rows have a key or file name of their own: path ~{told}"]


def _parsed_lines(one: ShownData, share: str) -> list[str]:
    if not one.json_fields:
        return []
    named = ", ".join(share_path(field, share) for field in one.json_fields)
    return [f"Texts of JSON, already parsed here: {named}"]


def _cut_block(block: str, fits: Callable[[str], bool]) -> str:
    lines = block.splitlines()
    while lines and not fits("\n".join([*lines, "(cut)"])):
        lines.pop()
    return "\n".join([*lines, "(cut)"])
