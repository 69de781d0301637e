"""A torch `Dataset` of a finished data set: tokens, labels, loss masks, positions and segments.

An item is a dict of tensors of one length, named as Megatron-LM names them:

    tokens         int64, the ids
    labels         int64, what is to be predicted at each place: the next token, or -100
    loss_mask      float32, 1.0 where the label counts and 0.0 where it is -100
    position_ids   int64, from 0 at every text
    segment_ids    int64, number of the text in the item from 0; -1 = padding

The label of a text's last token is -100, and so is one that the data set's loss mask does not
train. Without loss masks every label counts. `collate` pads items to one batch, `flatten` puts them
into one row with `cu_seqlens` for attention kernels that take texts of several lengths.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError
from ingot.converters.megatron.indexed_dataset import (
    IntegerArray,
    document_token_counts,
    number_stretches,
    open_data_set,
)
from ingot.converters.megatron.inspect.merge import local_data_set

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset
else:
    try:
        import torch
        from torch.utils.data import Dataset
    except ImportError:  # every module loads with the core alone; the class says what is missing
        torch, Dataset = None, Sequence

ItemUnit = Literal["document", "sequence", "stream"]
TextUnit = Literal["document", "sequence", "none"]
Item: TypeAlias = "dict[str, torch.Tensor]"

IGNORED: Final = -100  # what torch's cross entropy leaves out
_PADDING: Final = {"labels": IGNORED, "loss_mask": 0.0, "position_ids": 0, "segment_ids": -1}


class TokenDataset(Dataset["Item"]):
    """The items of a data set, read from memory maps as they are asked for.

    It may be sent to `DataLoader` workers, started either way: a copy opens the files anew.

    Args:
        prefix: the data set, without the endings; or the URL of one in an object store, of which a
            copy is made in the user's cache.
        seq_length: tokens per item: a shorter document or sequence is padded, a `stream` is cut.
            None = each as long as it is.
        pad_id: the id that pads.
        unit: what an item is: a `document` (a pack, where the data set is packed), a `sequence`, or
            the next `seq_length` tokens of the `stream` of all of them, as GPT is pretrained. Empty
            documents and sequences are no items. The end of a stream that fills no item is left
            out.
        texts: what starts at position 0, has its own segment and predicts nothing beyond itself: a
            `document`, a `sequence`, or `none` (the item as a whole). Default: a `sequence` where
            the data set is packed, as `PREFIX.meta.json` says, else a `document`; `none` for a
            stream.
        shift: `labels` are the next tokens, as Megatron takes them. False: label and loss mask
            stand at the token itself, for models that shift by themselves (Hugging Face's).
        truncate: cut a document or sequence that is longer than `seq_length`; else it is an error.

    Raises:
        ConversionError: torch is missing; the data set is broken; its masks do not match its
            tokens; something is longer than `seq_length`; a stream without `seq_length`.
    """

    def __init__(
        self,
        prefix: str | Path,
        *,
        seq_length: int | None = None,
        pad_id: int = 0,
        unit: ItemUnit = "document",
        texts: TextUnit | None = None,
        shift: bool = True,
        truncate: bool = False,
    ) -> None:
        if torch is None:
            raise ConversionError("", "torch is not installed", "pip install 'ingot[torch]'")
        self.prefix = local_data_set(prefix)
        self.seq_length = seq_length
        self.pad_id = pad_id
        self.unit: ItemUnit = unit
        self._given_texts = texts
        self.shift = shift
        self.truncate = truncate
        self._open()

    def _open(self) -> None:
        self._data = open_data_set(self.prefix)
        default: TextUnit = "sequence" if self._data.packed else "document"
        self.texts = self._given_texts or ("none" if self.unit == "stream" else default)
        self._check_length()
        # Which documents or sequences hold tokens; None where all do, as almost always.
        self._numbers = None if self.unit == "stream" else _find_nonempty(self._lengths)

    def _check_length(self) -> None:
        size = self.seq_length
        if size is not None and size < 1:
            raise ConversionError(str(self.prefix), f"seq_length {size}", "give a positive number")
        if self.unit == "stream" and size is None:
            raise ConversionError(str(self.prefix), "a stream of no length", "give seq_length")
        if size is None or self.unit == "stream" or self.truncate:
            return
        over = sum(int((lengths > size).sum()) for lengths in self._lengths())
        if over:
            problem = f"{over:,} {self.unit}(s) of more than {size:,} tokens"
            hint = "build with `max_tokens` or `pack`, or give truncate=True"
            raise ConversionError(str(self.prefix), problem, hint)

    def _lengths(self) -> Iterator[IntegerArray]:
        if self.unit == "document":
            return document_token_counts(self._data.tokens)
        return (lengths for _, lengths in number_stretches(self._data.tokens.lengths))

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the memory maps, whose pickles would hold the data."""
        dropped = ("_data", "_numbers")
        return {key: value for key, value in self.__dict__.items() if key not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __len__(self) -> int:
        """Number of items."""
        tokens = self._data.tokens
        if self.unit == "stream":
            return max(0, tokens.tokens.size - self.shift) // (self.seq_length or 1)
        if self._numbers is not None:
            return len(self._numbers)
        return tokens.documents if self.unit == "document" else len(tokens)

    def __getitem__(self, index: int) -> Item:
        """One item; a negative index counts from the end.

        Raises:
            IndexError: there is no such item.
        """
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        start, end = self._range(number)
        ids = self._data.tokens.tokens[start:end].astype(np.int64)
        segments, positions = self._places(start, end)
        counting = positions > 0  # nothing comes before a text
        if self._data.masks is not None:
            counting &= self._data.masks.tokens[start:end] != 0
        size = len(ids) if self.seq_length is None else min(len(ids), self.seq_length)
        labels = ids
        if self.shift:
            labels, counting = _next_values(ids, size), _next_values(counting, size)
        item = {
            "tokens": torch.from_numpy(ids[:size]),
            "labels": torch.from_numpy(np.where(counting, labels, IGNORED)[:size]),
            "loss_mask": torch.from_numpy(counting[:size].astype(np.float32)),
            "position_ids": torch.from_numpy(positions[:size]),
            "segment_ids": torch.from_numpy(segments[:size]),
        }
        return item if self.seq_length is None else _pad_item(item, self.seq_length, self.pad_id)

    def _range(self, number: int) -> tuple[int, int]:
        """First token of an item, and the end of what is read: one more where there is a next."""
        size = self.seq_length
        if self.unit == "stream" and size is not None:
            return number * size, (number + 1) * size + self.shift
        index = number if self._numbers is None else int(self._numbers[number])
        first, last = index, index + 1
        if self.unit == "document":
            first, last = (int(i) for i in self._data.tokens.document_indices[index : index + 2])
        start, end = self._start(first), self._start(last)
        return start, end if size is None else min(end, start + size + self.shift)

    def _start(self, sequence: int) -> int:
        tokens = self._data.tokens
        if sequence == len(tokens):
            return int(tokens.tokens.size)
        return int(tokens.offsets[sequence]) // tokens.dtype.itemsize

    def _places(self, start: int, end: int) -> tuple[IntegerArray, IntegerArray]:
        """Segment of each token of a range, and its place in its text."""
        cuts = np.array([start, *self._cuts(start, end)], np.int64)
        lengths = np.diff(cuts, append=end)
        segments = np.repeat(np.arange(len(cuts)), lengths)
        return segments, np.arange(start, end) - np.repeat(cuts, lengths)

    def _cuts(self, start: int, end: int) -> list[int]:
        """Where texts begin inside a range, in tokens."""
        if self.texts == "none":
            return []
        tokens = self._data.tokens
        width = tokens.dtype.itemsize
        first = bisect_right(tokens.offsets, start * width)
        last = bisect_left(tokens.offsets, end * width)
        starts: Iterable[int] = range(first, last)
        if self.texts == "document":
            indices = tokens.document_indices
            starts = indices[bisect_left(indices, first) : bisect_left(indices, last)].tolist()
        return sorted({self._start(sequence) for sequence in starts})


def _find_nonempty(lengths: Callable[[], Iterator[IntegerArray]]) -> npt.NDArray[np.int64] | None:
    """Places of the lengths that are not 0; None where that is all of them."""
    if all(bool(stretch.all()) for stretch in lengths()):
        return None
    positions, first = [np.empty(0, np.int64)], 0
    for stretch in lengths():
        positions.append(np.flatnonzero(stretch) + first)
        first += len(stretch)
    return np.concatenate(positions)


def _next_values(values: IntegerArray, size: int) -> IntegerArray:
    """`size` values, each the one after it; 0 after the last."""
    following = values[1 : size + 1]
    return np.concatenate([following, np.zeros(size - len(following), values.dtype)])


def _pad_item(item: Item, size: int, pad_id: int) -> Item:
    missing = size - len(item["tokens"])
    if not missing:
        return item
    filling = _PADDING | {"tokens": pad_id}
    return {
        name: torch.cat([values, values.new_full((missing,), filling[name])])
        for name, values in item.items()
    }


def collate(items: Sequence[Item], pad_id: int = 0) -> Item:
    """Return items as one batch: tensors of shape (items, longest item), padded at the end.

    Padding: `pad_id`, label -100, loss mask 0, position 0, segment -1.
    """
    longest = max(len(item["tokens"]) for item in items)
    padded = [_pad_item(item, longest, pad_id) for item in items]
    return {name: torch.stack([item[name] for item in padded]) for name in padded[0]}


def flatten(items: Sequence[Item]) -> "dict[str, torch.Tensor | int]":
    """Items without their padding in one row, for attention over texts of several lengths.

    Returns:
        The tensors of the items, of shape (1, tokens), where `segment_ids` go on from item to item;
        `cu_seqlens`, int32 of shape (texts + 1): where each text begins, and the end; `max_seqlen`,
        tokens of the longest text.
    """
    rows: dict[str, list[torch.Tensor]] = {name: [] for name in items[0]}
    texts = 0
    for item in items:
        real = item["segment_ids"] >= 0
        row = {name: values[real] for name, values in item.items()}
        row["segment_ids"] = row["segment_ids"] + texts
        texts = int(row["segment_ids"][-1]) + 1
        for name, values in row.items():
            rows[name].append(values)
    flat = {name: torch.cat(parts).unsqueeze(0) for name, parts in rows.items()}
    lengths = torch.bincount(flat["segment_ids"][0])
    stops = torch.cumsum(lengths, 0, dtype=torch.int32)
    cu_seqlens = torch.cat([stops.new_zeros(1), stops])
    return {**flat, "cu_seqlens": cu_seqlens, "max_seqlen": int(lengths.max())}
