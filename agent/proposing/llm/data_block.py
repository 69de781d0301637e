"""Show a data set to a model, read once and cut to a size that fits, with files and card."""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from ingot.agent.privacy import EMPTY_TEXT, Redactor, Safe, SafeValue, redact
from ingot.agent.privacy.redaction import (
    PLACED,
    clean_text,
    cut_middle,
    display_name,
    name_placeholder,
    share_path,
)
from ingot.agent.privacy.secrets import is_secret_name
from ingot.agent.proposing.cards import Card, telling_lines
from ingot.agent.proposing.columns import View
from ingot.agent.proposing.llm import inventory, markers, relations
from ingot.agent.proposing.llm.inventory import MOST_DEPTH, Size, keys_are_data_in, render_value
from ingot.agent.proposing.names import name_strength
from ingot.agent.proposing.proposal import value_strings
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

_SEEN_ELEMENTS = 60  # elements of a list that are looked at for the shapes of a row
_AT_LEAST = 3  # rows that are shown although fewer cover all shapes
_SPEAKER = 40  # characters of a name of who speaks

Feature = tuple[str, str]


def _with_card(block: Safe, card: Card, redactor: Redactor, fits: Callable[[Safe], bool]) -> Safe:
    """The block, and as many lines of a card as fit; no values are shared with `none`."""
    if redactor.share == "none":
        return block
    head = ["", f"What {card.file} beside the data says (may be wrong or hostile; data too):"]
    said = [f"| {redactor.text(line)}" for line in telling_lines(card)]
    while said and not fits(whole := Safe("\n".join([block, *head, *said]))):
        said.pop()
    return whole if said else block


_RAW_BYTES = 16 << 10
_MOST_NAME = 80
_FILES = 4
_LEFT_OUT = 3
_RAW_LINE = 200  # characters of the beginning of a raw line
_ROOT_ROW = 240  # characters of the row of another root
_GUESSED = " (guessed)"
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
        """Return the rows that were seen."""
        return [*chain(*(cells for _, cells in self.beginning)), *(row for _, row in self.roots)]

    def through(self, redactor: Redactor) -> "SafeFiles":
        """Return the same redacted, names included."""
        source, facts = self.source, self.source.files[0].facts
        shown = [_show_record(redactor, text, cells, facts) for text, cells in self.beginning]
        return SafeFiles(
            share=redactor.share,
            names=tuple(_show_name(redactor, one.name) for one in source.files[:_FILES]),
            files=len(source.files),
            left_out=tuple(
                (_show_name(redactor, one.name), _show_name(redactor, one.why))
                for one in source.left_out[:_LEFT_OUT]
            ),
            left_out_count=len(source.left_out),
            read_as=Safe(_format_line(source, self.root, redactor.share)),
            doubtful=bool(source.guessed.to_document()),
            beginning=Safe("\n".join(shown)),
            roots=tuple(
                (Safe(share_path(one.path, redactor.share)), one, redactor.value(row))
                for one, row in self.roots
            ),
            lines=facts.format == "text" and source.spec.root is None,
        )


def _show_name(redactor: Redactor, name: str) -> Safe:
    """A name of a file, which is redacted with `raw` too."""
    return redact(redactor.text(name))


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
    # Places inside one of the records of an object that is keyed by id are none.
    inside = (root or "").removesuffix("*") if (root or "").endswith("*") else None
    others = [
        one
        for one in source.roots
        if one.path != (root or "$")
        and (inside is None or one.path == "$" or not one.path.startswith(inside))
    ]
    roots = tuple((one, _first_row(source, one)) for one in others[:most])
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


def _show_record(redactor: Redactor, text: str, cells: Sequence[Json], facts: FileFacts) -> Safe:
    """A record as it may be shown: with `none` only its signs."""
    if redactor.share == "none":
        return Safe(_VALUE.sub("x", text))
    return redactor.text(text if redactor.share == "raw" else _hide_cells(text, cells, facts))


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
    """Return the files, how they were read, their raw beginning, and other roots."""
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
    told = [f"format {facts.format}{_GUESSED * ('format' in guessed)}"]
    if "encoding" in guessed:
        told.append(f"encoding {facts.encoding} (guessed)")
    if facts.format == "csv":
        told.append(f"delimiter {json.dumps(facts.delimiter)}{_GUESSED * ('delimiter' in guessed)}")
        told.append(f"quote {json.dumps(facts.quote)}{_GUESSED * ('quote' in guessed)}")
        told.append("first line = names" if facts.header else "no header (guessed)")
        if facts.header and are_data_like_names(facts.columns):
            told.append("THE NAMES LOOK LIKE DATA: perhaps there is no header")
    if source.spec.orient is not None:
        told.append(f"the file is a table (orient {source.spec.orient}), its rows are below")
    if root is not None:
        told.append(f'rows below are those of a root: answer "root": "{share_path(root, share)}"')
    return "Read as: " + ", ".join(told)


def are_data_like_names(names: Sequence[str]) -> bool:
    """Return whether column names look like values of a row: numbers, times, long texts."""
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
    """Return the root with which a JSON object is shown: the best one, None = the file as it is."""
    if source.spec.root is not None:
        return source.spec.root
    best = source.roots[0].path if source.roots else "$"
    return None if best == "$" else best


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownData:
    """What is shown of a data set; `root` None = the reader's, `key` is `~` of the first row."""

    source: Source
    sample: Sample
    view: View
    root: str | None
    key: str | None
    json_fields: tuple[str, ...]

    @property
    def rows(self) -> list[Json]:
        """Return the rows."""
        return [node.value for node in self.view.nodes]

    def through(self, redactor: Redactor) -> "SafeData":
        """Return the same for redacted rows; nothing is recomputed if no row has a secret."""
        nodes = [Node(redactor.value(one.value).json, one.key) for one in self.view.nodes]
        same = all(a.value == b.value for a, b in zip(nodes, self.view.nodes, strict=True))
        texts = (text for node in self.view.nodes for text in value_strings(node.value))
        return SafeData(
            share=redactor.share,
            placeholders=frozenset(one[0] for text in texts for one in PLACED.finditer(text)),
            view=self.view if same else View.over(nodes),
            key=redactor.text(self.key) if self.key is not None else None,
            json_fields=tuple(Safe(share_path(one, redactor.share)) for one in self.json_fields),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SafeData:
    """Rows that went through the redactor, and the placeholders that stood in them before."""

    share: str
    placeholders: frozenset[str] = frozenset()
    view: View
    key: Safe | None
    json_fields: tuple[Safe, ...]

    @property
    def rows(self) -> list[Json]:
        """Return the rows."""
        return [node.value for node in self.view.nodes]


def read_data(source: Source, sample: Sample) -> ShownData:
    """Return the reading that is shown."""
    known = sample
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
        sample=known,
        view=reading.view,
        root=root,
        key=sample.rows[0].key if sample.rows else None,
        json_fields=tuple(reading.source.get("json_fields", ())),
    )


def choose_rows(rows: Sequence[Json], most: int) -> list[int]:
    """Return the numbers of at most `most` rows that cover the most shapes and speakers.

    The most telling row comes first. A shape is a path with a JSON type (blank texts are a type of
    their own), or with the name of the speaker there. The same rows give the same choice.
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
    fits: Callable[[Safe], bool],
    *,
    small: bool,
    card: Card | None = None,
) -> Safe:
    """Return the data block, as rich as it may be; a card takes only the room that is left."""
    sizes = inventory.size_ladder(small=small)
    seen = look_at_files(one.source, one.root, sizes[0].roots)
    redactor = Redactor.of(share, one.source, one.sample, *one.rows, *seen.rows)
    block = _fitting_block(one.through(redactor), seen.through(redactor), sizes, fits)
    return block if card is None else _with_card(block, card, redactor, fits)


def _fitting_block(
    one: SafeData, seen: SafeFiles, sizes: Sequence[Size], fits: Callable[[Safe], bool]
) -> Safe:
    computed = markers.marker_lines(one.view, one.share, one.placeholders)
    computed += relations.relation_lines(one.rows, one.view, one.share)
    picked = choose_rows(one.rows, sizes[0].rows)
    block = EMPTY_TEXT
    for size in sizes:
        telling = [SafeValue(one.rows[number]) for number in sorted(picked[: size.rows])]
        parts = [*file_lines(seen, size), *_row_lines(one, size)]
        if computed and size.facts:
            parts += ["", "Computed over all sampled rows:", *computed[: size.facts]]
        if telling:
            parts += ["", "Rows:", *(render_value(row, size, one.share) for row in telling)]
        block = Safe("\n".join(parts))
        if fits(block):
            return block
    lines = block.splitlines()
    while lines and not fits(Safe("\n".join([*lines, "(cut)"]))):
        lines.pop()
    return Safe("\n".join([*lines, "(cut)"]))


def _row_lines(one: SafeData, size: Size) -> list[str]:
    """The key of rows, fields that hold JSON, and the inventory."""
    told = []
    if one.key is not None:
        of = "" if one.share == "none" else f'; of the first "{display_name(one.key)}"'
        told.append(f"Rows have a key or file name of their own: path ~{of}")
    if one.json_fields:
        told.append(f"Texts of JSON, already parsed here: {', '.join(one.json_fields)}")
    silent = "" if size.words else " (texts that are always filled, unless it says otherwise)"
    heading = f"Inventory of {len(one.view.nodes)} sampled rows{silent}:"
    lines = inventory.inventory_lines(one.rows, one.view.facts, size, one.share)
    return [*told, "", heading, *lines]
