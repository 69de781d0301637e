"""What every tokenizing engine is: Arrow texts in, one flat array of ids and the lengths out."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingot.converters.errors import IngotError

Ids: TypeAlias = npt.NDArray[np.uint32]
Lengths: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """Texts as ids.

    Attributes:
        ids: uint32, of all texts, one after another.
        lengths: int64, ids per text, in order; 0 for a text that failed.
        failed: positions of the texts that could not be encoded, ascending, and why.
    """

    ids: Ids
    lengths: Lengths
    failed: tuple[tuple[int, str], ...] = ()


class Engine(Protocol):
    """Encodes texts; an instance belongs to one thread."""

    @property
    def name(self) -> str:
        """`hf`, `sentencepiece`, `gigatoken` or `fastokens`."""
        ...

    def encode(self, texts: pa.LargeStringArray) -> Encoded:
        """Encode valid UTF-8 texts without nulls; no BOS, EOS or EOD is added.

        A text that cannot be encoded is listed in `failed` and takes no other with it.

        Raises:
            EngineWrongError: the engine gave other ids than the reference.
        """
        ...


class EngineWrongError(IngotError):
    """A fast engine differed from the reference on real text. Fields: engine, text (start of it).

    Whatever the engine wrote has to be made again without it.
    """

    def __init__(self, engine: str, text: str) -> None:
        super().__init__(engine, text)
        self.engine = engine
        self.text = text

    def __str__(self) -> str:
        return f"{self.engine} gives other ids than the reference on {self.text!r}"
