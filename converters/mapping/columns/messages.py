"""Messages of a conversation as one Arrow list column: the counterpart of rows/messages.py.

What an entry says is an array over its frame, or, where transcripts are split, over their pieces;
at the end the turns of all entries are brought into the order in which the row executor emits them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.mapping.columns import frame as frames
from ingot.converters.mapping.columns.scope import NotColumnarError, Scope, locate_each
from ingot.converters.mapping.columns.values import (
    Texts,
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
from ingot.converters.mapping.rows.messages import compile_split, expand_zip
from ingot.converters.paths import Path
from ingot.converters.records.schema import MESSAGE_TYPE, MESSAGES_TYPE

Codes = npt.NDArray[np.int8]

_NO_PLACES: frames.Places = np.zeros(0, np.int64)
_NO_ROWS: frames.Mask = np.zeros(0, np.bool_)

_ROLE_TEXTS = pa.array(ROLES, pa.string())
_ASSISTANT, _SYSTEM = ROLES.index("assistant"), ROLES.index("system")
_IS_PROMPT = np.array([role in ("user", "tool") for role in ROLES])
_LEFT_OUT, _UNMAPPED = -1, -2


class EntryTurns(NamedTuple):
    """The turns of an entry, in order."""

    roles: Codes
    texts: pa.Array
    kept: frames.Mask  # which there are
    masks: frames.Mask
    asked: frames.Mask  # the places of the frame where its conditions hold
    spoke: frames.Mask  # and where it says something
    places: frames.Places | None = None  # of the turns, None where there is one of each


Entry = Callable[[frames.Frame], EntryTurns]
Roles = Callable[[frames.Frame, frames.Mask], Codes]  # at the places of a mask
_Say = Callable[[frames.Frame, frames.Mask], EntryTurns]
_Masks = Callable[[frames.Frame, Codes, frames.Mask], frames.Mask]


class _Block(NamedTuple):
    """Entries that are emitted together, and where."""

    owners: frames.Places | None  # the records of the places, None: the places themselves
    said: list[EntryTurns]


@dataclass(frozen=True, kw_only=True, slots=True)
class Turns:
    """All turns of a batch in order; its rows are those of the frame of records."""

    rows: frames.Places
    roles: Codes
    texts: pa.Array
    masks: frames.Mask
    good: frames.Mask  # rows that are a conversation: a prompt and an answer
    system: frames.Mask
    ragged: frames.Mask

    def column(self, kept: frames.Mask) -> pa.ListArray:
        """Return the turns of the kept rows as lists, one per kept row."""
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
    """Return all entries of `messages` as one function of the rows. Raises NotColumnarError."""
    if sum(isinstance(m.role, RoleFromData) and bool(m.role.order) for m in messages) > 1:
        raise NotColumnarError("several entries with an order of speakers")
    blocks = [
        _compile_block(each, list(entries), scope)
        for each, entries in groupby(expand_zip(tuple(messages)), key=lambda m: m.each)
    ]
    return lambda frame: _merge_blocks(frame, [block(frame) for block in blocks])


def _compile_block(
    each: tuple[Path, ...], messages: list[Message], scope: Scope
) -> Callable[[frames.Frame], _Block]:
    ways, scope = locate_each(each, scope)
    entries = [_compile_entry(message, scope) for message in messages]

    def block(rows: frames.Frame) -> _Block:
        frame = frames.spread_each(ways, rows)[0] if ways else rows
        return _Block(frame.owners, [entry(frame) for entry in entries])

    return block


def _compile_entry(message: Message, scope: Scope) -> Entry:
    if message.content is None:
        raise ValueError("a message that does not exist")
    filters = [compile_filter(condition, scope) for condition in message.where]
    contents = compile_texts(message.content, scope)
    if isinstance(message.role, RoleSplit):
        say = _compile_split(message.role, message.loss_mask, contents)
    else:
        say = _compile_said(message, contents, scope)

    def entry(frame: frames.Frame) -> EntryTurns:
        asked = frame.active
        for one in filters:
            asked = asked & one.holds(one.scalars(frame, asked))
        return say(frame, asked)

    return entry


def _compile_said(message: Message, contents: Texts, scope: Scope) -> _Say:
    by_order = _compile_order(message.role, scope)
    roles = _compile_roles(message, scope)
    masks = _compile_masks(message.loss_mask, scope)

    def say(frame: frames.Frame, asked: frames.Mask) -> EntryTurns:
        codes = roles(frame, asked)
        texts = contents(frame, asked & (codes != _LEFT_OUT))
        spoken = asked & ~frames.blank_mask(texts)
        if by_order:
            codes = by_order(frame, asked, spoken)
        kept = spoken & (codes >= 0)
        frame.fail(spoken & (codes == _UNMAPPED))
        return EntryTurns(codes, texts, kept, masks(frame, codes, kept), asked, kept)

    return say


def _compile_split(role: RoleSplit, mask: bool | Value | None, contents: Texts) -> _Say:
    """Transcripts that are cut: what each says is turns of its own."""
    if isinstance(mask, Value):
        raise NotColumnarError("a loss mask from the data for a transcript")
    split = compile_split(role.markers)

    def say(frame: frames.Frame, asked: frames.Mask) -> EntryTurns:
        texts = contents(frame, asked)
        spoken = asked & ~frames.blank_mask(texts)
        cut = list(map(split, frames.filter_array(texts, spoken).to_pylist()))
        places = np.flatnonzero(spoken)
        marked = np.array([one is not None for one in cut], np.bool_)
        frame.fail(_place_mask(places[~marked], frame.size))
        turns = [one for one in cut if one is not None]
        of_turns = np.repeat(places[marked], [len(pieces) for _, pieces in turns])
        names = pa.array(list(chain.from_iterable(roles for roles, _ in turns)), pa.string())
        codes = pc.index_in(names, _ROLE_TEXTS).to_numpy().astype(np.int8)
        return EntryTurns(
            roles=codes,
            texts=pa.array(list(chain.from_iterable(said for _, said in turns)), pa.string()),
            kept=np.ones(len(codes), np.bool_),
            masks=_state_masks(codes, mask),
            asked=asked,
            spoke=_place_mask(of_turns, frame.size),
            places=of_turns,
        )

    return say


def _state_masks(roles: Codes, mask: bool | None) -> frames.Mask:
    """The loss mask of each turn: as stated, else true for the assistant."""
    if mask is None:
        trained: frames.Mask = roles == _ASSISTANT
        return trained
    return np.full(len(roles), mask)


def _compile_masks(mask: bool | Value | None, scope: Scope) -> _Masks:
    if not isinstance(mask, Value):
        return lambda _frame, roles, _kept: _state_masks(roles, mask)
    if mask.path is None or not mask.is_bare:
        raise NotColumnarError("a loss mask that is no path")
    scalars = compile_scalars(mask.path, scope)

    def masks(frame: frames.Frame, roles: Codes, kept: frames.Mask) -> frames.Mask:
        found = scalars(frame, kept)
        stated = _state_masks(roles, None)
        if pa.types.is_string(found.type):
            frame.fail(kept & frames.valid_mask(found))
            return stated
        trained = found.cast(pa.bool_())  # of a number whether it is not 0
        return frames.as_mask(pc.coalesce(trained, pa.array(stated)))

    return masks


def _compile_roles(message: Message, scope: Scope) -> Roles:
    role = message.role
    if isinstance(role, RoleSplit):
        raise ValueError("the roles of a transcript are those of its markers")
    if isinstance(role, RoleFromData) and role.order:  # settled by `_compile_order`
        return lambda frame, _asked: np.full(frame.size, _UNMAPPED, np.int8)
    if isinstance(role, RoleFromData):
        return _compile_data_roles(role, scope)
    names = role.roles if isinstance(role, RoleInTurn) else (role,)
    cycle = np.array([ROLES.index(name) for name in names], np.int8)

    def codes(frame: frames.Frame, _asked: frames.Mask) -> Codes:
        if frame.numbers is None:
            return np.full(frame.size, cycle[0])
        taken: Codes = cycle[frame.numbers % len(cycle)]
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
        rows = places if frame.owners is None else frame.owners[places]
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
    parents = [_NO_PLACES]
    for block, one in said:
        places = np.arange(len(one.asked)) if one.places is None else one.places
        parents.append(places if block.owners is None else block.owners[places])
    of_rows = np.concatenate(parents)
    roles = np.concatenate([np.zeros(0, np.int8), *(one.roles for _, one in said)])
    kept = np.concatenate([_NO_ROWS, *(one.kept for _, one in said)])
    masks = np.concatenate([_NO_ROWS, *(one.masks for _, one in said)])
    chosen = _emission_order(size, blocks) if len(said) > 1 else np.arange(len(of_rows))
    chosen = chosen[kept[chosen]]
    texts = pa.concat_arrays([one.texts for _, one in said]) if said else _ROLE_TEXTS[:0]
    if len(chosen) < len(texts) or len(said) > 1:
        texts = texts.take(pa.array(chosen))
    in_rows, spoken = of_rows[chosen], roles[chosen]
    return Turns(
        rows=in_rows,
        roles=spoken,
        texts=texts,
        masks=masks[chosen],
        good=rows.active
        & _place_mask(in_rows[_IS_PROMPT[spoken]], size)
        & _place_mask(in_rows[spoken == _ASSISTANT], size),
        system=_place_mask(in_rows[spoken == _SYSTEM], size),
        ragged=_ragged_rows(blocks, size),
    )


def _emission_order(size: int, blocks: list[_Block]) -> frames.Places:
    """The places of all entries, one after the other, in the order of emission."""
    entries = [one for block in blocks for one in block.said]
    if all(block.owners is None for block in blocks) and all(e.places is None for e in entries):
        return np.arange(len(entries) * size).reshape(len(entries), size).T.ravel()
    widths = []
    for block in blocks:
        places = np.ones(size, np.int64)
        if block.owners is not None:
            places = np.bincount(block.owners, minlength=size)
        widths.append(places * len(block.said))
    total: frames.Places = np.sum(widths, axis=0, dtype=np.int64)
    starts = np.cumsum(total) - total
    slots = []
    for block, width in zip(blocks, widths, strict=True):
        first = starts
        if block.owners is not None:
            first = starts[block.owners] + frames.number_places(block.owners) * len(block.said)
        for number, one in enumerate(block.said):
            slots.append((first if one.places is None else first[one.places]) + number)
        starts = starts + width
    return np.argsort(np.concatenate(slots), kind="stable")


def _place_mask(places: frames.Places, size: int) -> frames.Mask:
    mask = np.zeros(size, np.bool_)
    mask[places] = True
    return mask


def _ragged_rows(blocks: list[_Block], size: int) -> frames.Mask:
    """Rows with an element at which one entry speaks and another does not."""
    ragged = np.zeros(size, np.bool_)
    for block in blocks:
        if block.owners is None or len(block.said) < 2:
            continue
        spoke = np.sum([one.spoke for one in block.said], axis=0)
        asked = np.sum([one.asked for one in block.said], axis=0)
        uneven = (spoke > 0) & (spoke < asked)
        ragged[block.owners[uneven]] = True
    return ragged
