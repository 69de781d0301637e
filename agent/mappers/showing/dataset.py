"""A data set as a model is shown it: read once, and told at a size that fits.

A JSON object is read with the best of its roots, and columns of JSON texts are parsed, so that the
paths shown are those that a mapping needs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ingot.agent.cards import Card
from ingot.agent.mappers.rules.readings import parsed_strings, plain
from ingot.agent.mappers.rules.table import View
from ingot.agent.mappers.showing import carding, files, inventory, markers, relations
from ingot.agent.mappers.showing.cleaning import shown_name
from ingot.agent.mappers.showing.rows import chosen, rendered
from ingot.agent.mappers.showing.sharing import shared_path
from ingot.agent.mappers.showing.sizes import Size, ladder
from ingot.agent.redaction import redact
from ingot.converters.errors import SourceError
from ingot.converters.readers import Source
from ingot.converters.rows import Json
from ingot.converters.sample import Sample, draw


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What is shown of a data set.

    Attributes:
        source: where it lies.
        view: the sampled rows, texts of JSON parsed, with their inventory.
        root: the root that they were read with, None = the reader's own.
        key: what `~` is for the first row, None where rows have none.
        json_fields: fields whose texts were parsed.
    """

    source: Source
    view: View
    root: str | None
    key: str | None
    json_fields: tuple[str, ...]

    @property
    def rows(self) -> list[Json]:
        """The rows."""
        return [node.value for node in self.view.nodes]


def shown(source: Source, sample: Sample) -> Shown:
    """The reading that is shown.

    Raises:
        SourceError: the source cannot be read any more.
    """
    root = files.best_root(source)
    if root is not None and source.spec.root is None:
        try:
            sample = draw(source.with_spec(replace(source.spec, root=root)))
        except SourceError:
            root = None
    as_read = plain(sample, {}, 1.0, "")
    reading = next(parsed_strings(as_read), as_read)
    return Shown(
        source=source,
        view=reading.view,
        root=root,
        key=sample.rows[0].key if sample.rows else None,
        json_fields=tuple(reading.source.get("json_fields", ())),
    )


def told(
    one: Shown,
    share: str,
    fits: Callable[[str], bool],
    *,
    small: bool,
    card: Card | None = None,
) -> str:
    """The data block, as rich as it may be; what a card says takes only the room that is left.

    Args:
        one: the data set.
        share: `none`, `redacted` or `raw`.
        fits: whether a block is small enough.
        small: terse lines, and sizes from the middle on.
        card: what is said beside the data.
    """
    block = _rows_told(one, share, fits, small=small)
    if card is None:
        return block
    return "\n".join(
        [block, *carding.told(card, share, lambda said: fits("\n".join([block, *said])))]
    )


def _rows_told(one: Shown, share: str, fits: Callable[[str], bool], *, small: bool) -> str:
    rows = one.rows
    computed = [*markers.lines(one.view, share), *relations.lines(rows, one.view, share)]
    sizes = ladder(small=small)
    picked = chosen(rows, sizes[0].rows)
    seen = files.look(one.source, one.root, sizes[0].roots)
    block = ""
    for size in sizes:
        telling = [rows[number] for number in sorted(picked[: size.rows])]
        head = files.lines(one.source, seen, size, share, one.root)
        block = _block(one, head, telling, computed, size, share)
        if fits(block):
            return block
    return _cut_to(block, fits)


def _block(
    one: Shown,
    head: Sequence[str],
    rows: Sequence[Json],
    computed: Sequence[str],
    size: Size,
    share: str,
) -> str:
    parts = [
        *head,
        *_key(one, share),
        *_parsed(one, share),
        "",
        _heading(one, size),
        *inventory.lines(one.rows, one.view.facts, size, share),
    ]
    if computed and size.facts:
        parts += ["", "Computed over all sampled rows:", *computed[: size.facts]]
    if rows:
        parts += ["", "Rows:", *(rendered(row, size, share) for row in rows)]
    return "\n".join(parts)


def _heading(one: Shown, size: Size) -> str:
    silent = "" if size.words else " (texts that are always filled, unless it says otherwise)"
    return f"Inventory of {len(one.view.nodes)} sampled rows{silent}:"


def _key(one: Shown, share: str) -> list[str]:
    if one.key is None:
        return []
    told = "" if share == "none" else f'; of the first "{shown_name(redact(one.key))}"'
    return [f"Rows have a key or file name of their own: path ~{told}"]


def _parsed(one: Shown, share: str) -> list[str]:
    if not one.json_fields:
        return []
    named = ", ".join(shared_path(field, share) for field in one.json_fields)
    return [f"Texts of JSON, already parsed here: {named}"]


def _cut_to(block: str, fits: Callable[[str], bool]) -> str:
    """The most lines of a block that fit."""
    lines = block.splitlines()
    while lines and not fits("\n".join([*lines, "(cut)"])):
        lines.pop()
    return "\n".join([*lines, "(cut)"])
