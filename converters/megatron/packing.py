"""Texts put together into packs of a fixed size, so that training pads little.

Best fit: a text goes into the open pack that it leaves the least room in; where it fits into none,
a new one is opened, and where too many are open the fullest is given away. The same texts in the
same order always give the same packs.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ingot.converters.errors import ConversionError

Ids: TypeAlias = npt.NDArray[np.uint32]
Mask: TypeAlias = npt.NDArray[np.uint8]

OPEN_PACKS: Final = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """Texts that are trained on as one row.

    Attributes:
        size: tokens that fit in.
        texts: ids of each text, at least one, none of them empty; together at most `size`.
        masks: for each text one byte per id, 1 = trained; None where the data has none.
    """

    size: int
    texts: tuple[Ids, ...]
    masks: tuple[Mask, ...] | None

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Ids per text."""
        return np.fromiter(map(len, self.texts), np.int64, len(self.texts))

    @property
    def ids(self) -> Ids:
        """Ids of all texts, one after another."""
        return np.concatenate(self.texts)

    @property
    def mask(self) -> Mask | None:
        """The masks of all texts, one after another; None where the data has none."""
        return None if self.masks is None else np.concatenate(self.masks)

    @property
    def padding(self) -> int:
        """Tokens that are missing to `size`."""
        return self.size - sum(map(len, self.texts))


class Packer:
    """Takes texts in order, gives packs as they are full, the rest at the end.

    Memory: `open_packs` packs of `size` tokens; what is given is copied.

    Args:
        size: tokens per pack.
        open_packs: packs that are filled at the same time; more of them pad less and move texts
            further from their neighbours.

    Raises:
        ConversionError: the size or the number of packs is no positive number.
    """

    def __init__(self, size: int, open_packs: int = OPEN_PACKS) -> None:
        if size < 1 or open_packs < 1:
            problem = f"{size} tokens in {open_packs} open packs"
            raise ConversionError("packing", problem, "give positive numbers")
        self.size = size
        self._most = open_packs
        self._open: list[tuple[int, int]] = []  # room left, number of the pack; ascending
        self._texts: dict[int, list[Ids]] = {}
        self._masks: dict[int, list[Mask]] = {}
        self._opened = 0
        self._masked: bool | None = None

    def add(self, ids: Ids, mask: Mask | None = None) -> list[Pack]:
        """Put a text into a pack.

        Args:
            ids: of the text, 1 to `size` of them.
            mask: one byte per id, for all texts or for none.

        Returns:
            The packs that are finished by it: none, one or two.

        Raises:
            ConversionError: an empty text, one that is longer than a pack, or a mask of another
                length, or for some texts alone.
        """
        self._check(ids, mask)
        finished = []
        place = bisect_left(self._open, (len(ids), 0))
        if place == len(self._open):
            if len(self._open) == self._most:
                finished.append(self._close(0))
            room, number = self.size, self._opened
            self._opened += 1
        else:
            room, number = self._open.pop(place)
        self._texts.setdefault(number, []).append(ids.copy())  # a view keeps its whole batch alive
        if mask is not None:
            self._masks.setdefault(number, []).append(mask.copy())
        insort(self._open, (room - len(ids), number))
        if room == len(ids):
            finished.append(self._close(0))
        return finished

    def finish(self) -> list[Pack]:
        """The packs that are still open, in the order in which they were opened."""
        self._open.sort(key=lambda entry: entry[1])
        return [self._close(0) for _ in range(len(self._open))]

    def _check(self, ids: Ids, mask: Mask | None) -> None:
        if not 1 <= len(ids) <= self.size:
            problem = f"a text of {len(ids):,} tokens"
            hint = f"leave it out, or cut it to 1 to {self.size:,}"
            raise ConversionError("packing", problem, hint)
        if mask is not None and len(mask) != len(ids):
            raise ConversionError("packing", f"a mask of {len(mask)} for {len(ids)} tokens")
        if self._masked not in (None, mask is not None):
            raise ConversionError("packing", "some texts have a mask and some have none")
        self._masked = mask is not None

    def _close(self, place: int) -> Pack:
        _, number = self._open.pop(place)
        texts, masks = self._texts.pop(number), self._masks.pop(number, None)
        return Pack(size=self.size, texts=tuple(texts), masks=tuple(masks) if masks else None)
