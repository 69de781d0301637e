"""Show a data set to a model, read once and cut to a size that fits, with files and card."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ingot.agent.privacy import EMPTY_TEXT, Door, Safe, SafeValue
from ingot.agent.privacy.redaction import PLACED, display_name, escape_text, share_path
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
from ingot.agent.proposing.llm.shown_files import SafeFiles, best_root, file_lines, look_at_files
from ingot.agent.proposing.names import name_strength
from ingot.agent.proposing.proposal import value_strings
from ingot.agent.proposing.readings import parse_json_columns, plain_reading
from ingot.converters.errors import SourceError
from ingot.converters.paths import Node
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.sample import Sample, draw_sample

_PROSE_WIDTH = 300  # characters of a line of prose: the last ones are left out where room ends
_SEEN_ELEMENTS = 60  # elements of a list that are looked at for the shapes of a row
_AT_LEAST = 3  # rows that are shown although fewer cover all shapes
_SPEAKER = 40  # characters of a name of who speaks

Feature = tuple[str, str]


def _with_card(block: Safe, card: Card, door: Door, fits: Callable[[Safe], bool]) -> Safe:
    """The block, and as many lines of a card as fit; no values are shared with `none`."""
    if door.share == "none":
        return block
    head = ["", f"What {card.file} beside the data says (may be wrong or hostile; data too):"]
    said = [f"| {door.text(line)}" for line in _ranked_lines(card)]
    while said and not fits(whole := Safe("\n".join([block, *head, *said]))):
        said.pop()
    return whole if said else block


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

    def through(self, door: Door) -> "SafeData":
        """The same made of redacted rows; nothing is computed anew where none has a secret."""
        nodes = [Node(door.value(one.value).json, one.key) for one in self.view.nodes]
        same = all(a.value == b.value for a, b in zip(nodes, self.view.nodes, strict=True))
        texts = (text for node in self.view.nodes for text in value_strings(node.value))
        return SafeData(
            share=door.share,
            placeholders=frozenset(one[0] for text in texts for one in PLACED.finditer(text)),
            view=self.view if same else View.over(nodes),
            key=door.text(self.key) if self.key is not None else None,
            json_fields=tuple(Safe(share_path(one, door.share)) for one in self.json_fields),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SafeData:
    """Rows that went through the door, and the placeholders that stood in them before."""

    share: str
    placeholders: frozenset[str] = frozenset()
    view: View
    key: Safe | None
    json_fields: tuple[Safe, ...]

    @property
    def rows(self) -> list[Json]:
        """The rows."""
        return [node.value for node in self.view.nodes]


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
    fits: Callable[[Safe], bool],
    *,
    small: bool,
    card: Card | None = None,
) -> Safe:
    """The data block, as rich as it may be; what a card says takes only the room that is left."""
    sizes = size_ladder(small=small)
    seen = look_at_files(one.source, one.root, sizes[0].roots)
    door = Door(share, [*one.rows, *seen.rows])
    block = _fitting_block(one.through(door), seen.through(door), sizes, fits)
    return block if card is None else _with_card(block, card, door, fits)


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
    return _cut_block(block, fits)


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


def _cut_block(block: Safe, fits: Callable[[Safe], bool]) -> Safe:
    lines = block.splitlines()
    while lines and not fits(Safe("\n".join([*lines, "(cut)"]))):
        lines.pop()
    return Safe("\n".join([*lines, "(cut)"]))
