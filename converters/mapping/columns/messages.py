"""Messages of a conversation as one Arrow list column: the counterpart of rows/messages.py.

Carried are entries whose role is fixed, taken in turn or read from the data, on the row itself or
with `each` over one list. What an entry says is an array over its frame; at the end the turns of
all entries are brought into the order in which the row executor emits them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.mapping.columns import frame as frames
from ingot.converters.mapping.columns.values import (
    Scope,
    compile_filter,
    compile_scalars,
    compile_texts,
    text_scalar,
)
from ingot.converters.mapping.language import (
    ROLES,
    Message,
    MessageRole,
    RoleFromData,
    RoleInTurn,
    RoleSplit,
    Value,
)
from ingot.converters.mapping.rows.messages import expand_zip
from ingot.converters.paths import Mark, Path, compile_path, steps_text
from ingot.converters.records.schema import MESSAGE_TYPE, MESSAGES_TYPE

Codes = npt.NDArray[np.int8]

_NO_PLACES: frames.Places = np.zeros(0, np.int64)
_NO_ROWS: frames.Mask = np.zeros(0, np.bool_)

_ROLE_TEXTS = pa.array(ROLES, pa.string())
_ASSISTANT, _SYSTEM = ROLES.index("assistant"), ROLES.index("system")
_IS_PROMPT = np.array([role in ("user", "tool") for role in ROLES])
_LEFT_OUT, _UNMAPPED = -1, -2


class EntryTurns(NamedTuple):
    """What an entry says at each place of its frame.

    `asked` is where its conditions hold, `kept` where a turn comes of it, `broken` where something
    is said by a role that is unknown.
    """

    roles: Codes
    texts: pa.Array
    asked: frames.Mask
    kept: frames.Mask
    broken: frames.Mask | None
    loss_mask: bool | None


Entry = Callable[[frames.Frame], EntryTurns | None]
Roles = Callable[[frames.Frame, frames.Mask], Codes]  # at the places of a mask


class _Block(NamedTuple):
    """Entries that are emitted together, and where: the row of each place, and its position."""

    frame: frames.Frame
    said: list[EntryTurns]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turns:
    """All turns of a batch in order.

    Attributes:
        good: rows that are a conversation: a prompt, an answer, no unknown role.
    """

    rows: frames.Places
    roles: Codes
    texts: pa.Array
    masks: frames.Mask
    good: frames.Mask
    system: frames.Mask
    ragged: frames.Mask

    def column(self, kept: frames.Mask) -> pa.ListArray:
        """The turns of the kept rows as lists, one per kept row."""
        rows, roles, texts, masks = self.rows, self.roles, self.texts, self.masks
        if not kept.all():
            chosen = kept[rows]
            texts = texts.filter(pa.array(chosen))
            rows, roles, masks = rows[chosen], roles[chosen], masks[chosen]
        counts = np.bincount(rows, minlength=len(kept))[kept]
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        columns = [_ROLE_TEXTS.take(pa.array(roles)), texts, pa.array(masks)]
        structs = pa.StructArray.from_arrays(columns, fields=list(MESSAGE_TYPE))
        return pa.ListArray.from_arrays(pa.array(offsets), structs, type=MESSAGES_TYPE)


def compile_turns(messages: Sequence[Message], scope: Scope) -> Callable[[frames.Frame], Turns]:
    """All entries of `messages` as one function of the rows. Raises NotColumnarError."""
    if sum(isinstance(m.role, RoleFromData) and bool(m.role.order) for m in messages) > 1:
        raise frames.NotColumnarError("several entries with an order of speakers")
    blocks = [
        _compile_block(each, list(entries), scope)
        for each, entries in groupby(expand_zip(tuple(messages)), key=lambda m: m.each)
    ]
    return lambda frame: _merge_blocks(frame, [block(frame) for block in blocks])


def _compile_block(
    each: tuple[Path, ...], messages: list[Message], scope: Scope
) -> Callable[[frames.Frame], _Block]:
    way = _list_path(each, scope) if each else None
    if way is not None:
        inner = pa.null() if way.leaf is None else way.leaf.value_type
        scope = Scope(kind=inner, stats=scope.stats)
    entries = [_compile_entry(message, scope) for message in messages]

    def block(rows: frames.Frame) -> _Block:
        frame = rows if way is None else _list_elements(way, rows)
        said = [entry(frame) for entry in entries]
        return _Block(frame, [s for s in said if s is not None])

    return block


def _list_path(each: tuple[Path, ...], scope: Scope) -> frames.ColumnPath:
    """Where the one list of an `each` lies. Raises NotColumnarError."""
    if len(each) > 1:
        raise frames.NotColumnarError("lists walked in step")
    steps = each[0].steps
    if not steps or steps[-1] != Mark("[*]"):
        raise frames.NotColumnarError(f"each over {each[0].text}: no [*] at the end")
    way = frames.locate_path(compile_path(steps_text(steps[:-1])), scope.kind)
    if way.leaf is not None and not frames.is_list(way.leaf):
        raise frames.NotColumnarError(f"each over {each[0].text}: a value of type {way.leaf}")
    if way.leaf is not None:
        frames.refuse_views(way.leaf.value_type)
    return way


def _list_elements(way: frames.ColumnPath, rows: frames.Frame) -> frames.Frame:
    if way.leaf is None:
        return frames.spread_lists(pa.nulls(rows.size, pa.list_(pa.null())), rows)
    return frames.spread_lists(frames.follow_path(way, rows).array, rows)


def _compile_entry(message: Message, scope: Scope) -> Entry:
    if isinstance(message.loss_mask, Value):
        raise frames.NotColumnarError("a loss mask from the data")
    if message.content is None:
        return lambda _frame: None
    mask = message.loss_mask
    filters = [compile_filter(condition, scope) for condition in message.where]
    contents = compile_texts(message.content, scope)
    by_order = _compile_order(message.role, scope)
    roles = _compile_roles(message, scope)

    def entry(frame: frames.Frame) -> EntryTurns:
        asked = frame.active
        for one in filters:
            asked = asked & one.holds(one.scalars(frame, asked))
        codes = roles(frame, asked)
        texts = contents(frame, asked & (codes != _LEFT_OUT))
        spoken = asked & ~frames.blank_mask(texts)
        if by_order:
            codes = by_order(frame, asked, spoken)
        kept = spoken & (codes >= 0)
        unknown = spoken & (codes == _UNMAPPED)
        return EntryTurns(codes, texts, asked, kept, unknown if unknown.any() else None, mask)

    return entry


def _compile_roles(message: Message, scope: Scope) -> Roles:
    role = message.role
    if isinstance(role, RoleSplit):
        raise frames.NotColumnarError("a transcript that is split")
    if isinstance(role, RoleFromData) and role.order:  # settled by `_compile_order`
        return lambda frame, _asked: np.full(frame.size, _UNMAPPED, np.int8)
    if isinstance(role, RoleFromData):
        return _compile_data_roles(role, scope)
    names = role.roles if isinstance(role, RoleInTurn) else (role,)
    cycle = np.array([ROLES.index(name) for name in names], np.int8)

    def codes(frame: frames.Frame, _asked: frames.Mask) -> Codes:
        if frame.positions is None:
            return np.full(frame.size, cycle[0])
        taken: Codes = cycle[frame.positions % len(cycle)]
        return taken

    return codes


def _compile_data_roles(role: RoleFromData, scope: Scope) -> Roles:
    scalars = compile_scalars(role.path, scope)
    table = dict(role.map) if role.map else {name: name for name in ROLES}
    keys = pa.array([text_scalar(key).as_py() for key in table], pa.string())
    meant = [_LEFT_OUT if name is None else ROLES.index(name) for name in table.values()]
    # Behind the keys: what no key matches, and what is missing or null.
    other = meant[list(table).index("*")] if "*" in table else _UNMAPPED
    by_place = np.array([*meant, other, _UNMAPPED], np.int8)

    def codes(frame: frames.Frame, asked: frames.Mask) -> Codes:
        texts = frames.to_text(scalars(frame, asked))
        named = pc.fill_null(pc.index_in(texts, value_set=keys, skip_nulls=True), len(table))
        places = pc.if_else(texts.is_valid(), named, len(table) + 1)
        found: Codes = by_place[places.to_numpy()]
        return found

    return codes


def _compile_order(
    role: MessageRole, scope: Scope
) -> Callable[[frames.Frame, frames.Mask, frames.Mask], Codes] | None:
    """Roles in the order in which speakers first say something; None for other forms."""
    if not isinstance(role, RoleFromData) or not role.order:
        return None
    scalars = compile_scalars(role.path, scope)
    by_place = np.array([*(ROLES.index(name) for name in role.order), _UNMAPPED], np.int8)

    def codes(frame: frames.Frame, asked: frames.Mask, spoken: frames.Mask) -> Codes:
        speakers = frames.to_text(scalars(frame, asked)).dictionary_encode()
        numbers = pc.fill_null(speakers.indices, -1).to_numpy().astype(np.int64)
        found = np.full(frame.size, _UNMAPPED, np.int8)
        places = np.flatnonzero(spoken & (numbers >= 0))
        rows = places if frame.parents is None else frame.parents[places]
        pairs = rows * (len(speakers.dictionary) + 1) + numbers[places]
        _, firsts, of_pair = np.unique(pairs, return_index=True, return_inverse=True)
        in_order = np.argsort(firsts)
        rows_in_order = rows[firsts[in_order]]
        ranks = np.empty(len(firsts), np.int64)
        ranks[in_order] = np.arange(len(firsts)) - np.searchsorted(rows_in_order, rows_in_order)
        found[places] = by_place[np.minimum(ranks[of_pair], len(role.order))]
        return found

    return codes


# --- the turns of all entries in the order of the rows


def _merge_blocks(rows: frames.Frame, blocks: list[_Block]) -> Turns:
    said = [(block, one) for block in blocks for one in block.said]
    size = rows.size
    parents = np.concatenate([_NO_PLACES, *(_parent_rows(block) for block, _ in said)])
    roles = np.concatenate([np.zeros(0, np.int8), *(one.roles for _, one in said)])
    kept = np.concatenate([_NO_ROWS, *(one.kept for _, one in said)])
    masks = np.concatenate([_NO_ROWS, *(_loss_masks(one) for _, one in said)])
    chosen = _emission_order(size, blocks) if len(said) > 1 else np.arange(len(parents))
    chosen = chosen[kept[chosen]]
    texts = pa.concat_arrays([one.texts for _, one in said]) if said else _ROLE_TEXTS[:0]
    if len(chosen) < len(texts) or len(said) > 1:
        texts = texts.take(pa.array(chosen))
    in_rows, spoken = parents[chosen], roles[chosen]
    return Turns(
        rows=in_rows,
        roles=spoken,
        texts=texts,
        masks=masks[chosen],
        good=rows.active
        & _row_mask(in_rows[_IS_PROMPT[spoken]], size)
        & _row_mask(in_rows[spoken == _ASSISTANT], size)
        & ~_broken_rows(said, size),
        system=_row_mask(in_rows[spoken == _SYSTEM], size),
        ragged=_ragged_rows(blocks, size),
    )


def _parent_rows(block: _Block) -> frames.Places:
    frame = block.frame
    return np.arange(frame.size) if frame.parents is None else frame.parents


def _loss_masks(said: EntryTurns) -> frames.Mask:
    """The loss mask of each turn: as stated, else true for the assistant."""
    if said.loss_mask is None:
        trained: frames.Mask = said.roles == _ASSISTANT
        return trained
    return np.full(len(said.roles), said.loss_mask)


def _emission_order(size: int, blocks: list[_Block]) -> frames.Places:
    """The places of all entries, one after the other, in the order of emission."""
    if all(block.frame.parents is None for block in blocks):
        count = sum(len(block.said) for block in blocks)
        return np.arange(count * size).reshape(count, size).T.ravel()
    widths = [np.bincount(_parent_rows(b), minlength=size) * len(b.said) for b in blocks]
    total: frames.Places = np.sum(widths, axis=0, dtype=np.int64)
    starts = np.cumsum(total) - total
    slots = []
    for block, width in zip(blocks, widths, strict=True):
        positions = block.frame.positions
        first = starts[_parent_rows(block)]
        if positions is not None:
            first = first + positions * len(block.said)
        slots += [first + number for number in range(len(block.said))]
        starts = starts + width
    return np.argsort(np.concatenate(slots), kind="stable")


def _row_mask(rows: frames.Places, size: int) -> frames.Mask:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _broken_rows(said: list[tuple[_Block, EntryTurns]], size: int) -> frames.Mask:
    rows = [_parent_rows(block)[one.broken] for block, one in said if one.broken is not None]
    return _row_mask(np.concatenate([_NO_PLACES, *rows]), size)


def _ragged_rows(blocks: list[_Block], size: int) -> frames.Mask:
    """Rows with an element at which one entry speaks and another does not."""
    ragged = np.zeros(size, np.bool_)
    for block in blocks:
        if block.frame.parents is None or len(block.said) < 2:
            continue
        spoke = np.sum([one.kept for one in block.said], axis=0)
        asked = np.sum([one.asked for one in block.said], axis=0)
        uneven = (spoke > 0) & (spoke < asked)
        ragged[block.frame.parents[uneven]] = True
    return ragged
