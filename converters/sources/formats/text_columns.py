"""Blocks of a delimited file as columns, by Arrow's parser, where that reads what the rows are.

Its rules differ in few places, and a block in which one of them may lie is left to the slower
readers: it takes a lone CR for a line end, leaves out a byte order mark, takes text behind a
closing quote as it comes, and closes a quoted cell that is open at the end.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

_STAND_IN: Final = b"\x1f"  # for a delimiter of several bytes, which Arrow does not know
_BLANK_LINE = re.compile(rb"(?:\A|\n)[\t \x0b\x0c\x1c-\x1f]+\r?(?:\n|\Z)")
_MOST_BYTES: Final = 1 << 30  # of a block: Arrow counts its bytes in 32 bits


class TextColumns:
    """Parses blocks of whole lines of a table to the columns at `places`, all of one type."""

    def __init__(
        self, width: int, delimiter: str, quote: str, places: Sequence[int], kind: pa.DataType
    ) -> None:
        import pyarrow.csv

        self._csv: Any = pyarrow.csv
        self._mark, self._quote = delimiter.encode(), quote.encode()
        self._long = len(self._mark) > 1
        self._names = [f"{place}" for place in range(width)]  # those of a file may stand twice
        self._parse = self._csv.ParseOptions(
            delimiter=_STAND_IN.decode() if self._long else delimiter,
            quote_char=quote if len(self._quote) == 1 else False,
            newlines_in_values=bool(quote),
        )
        wanted = [self._names[place] for place in places]
        self._convert = self._csv.ConvertOptions(
            column_types=dict.fromkeys(wanted, kind), include_columns=wanted
        )

    def parse(self, block: bytes) -> list[pa.Array] | None:
        """Return the wanted columns of a block, None if only the slower readers can read it."""
        if not self._is_plain(block):
            return None
        if self._has_quotes(block):
            block = block if block.endswith(b"\n") else b"%b\n" % block
            return self._read(block) if self._is_strict(block) else None
        return self._read(block.replace(self._mark, _STAND_IN) if self._long else block)

    def _is_strict(self, block: bytes) -> bool:
        """Whether each quote but doubled ones opens a cell or closes one."""
        data = np.frombuffer(block, np.uint8)
        quotes = np.flatnonzero(data == ord(self._quote))
        if len(quotes) % 2:
            return False
        edges = np.zeros(256, np.bool_)
        edges[list(b"\r\n" + self._mark + self._quote)] = True
        # Before the first byte stands the last one, a line end.
        around = edges[data[quotes[::2] - 1]], edges[data[quotes[1::2] + 1]]
        return bool(around[0].all() and around[1].all())

    def _read(self, block: bytes) -> list[pa.Array] | None:
        options = self._csv.ReadOptions(
            column_names=self._names, use_threads=False, block_size=len(block) + 1
        )
        try:
            table = self._csv.read_csv(
                pa.BufferReader(block),
                read_options=options,
                parse_options=self._parse,
                convert_options=self._convert,
            )
        except pa.ArrowInvalid:
            return None
        return [column.combine_chunks() for column in table.columns]

    def _is_plain(self, block: bytes) -> bool:
        """Whether Arrow's rules are those of the readers: line ends, blank lines, delimiters."""
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return False
        if not block or block.isspace() or block.startswith(BOM_UTF8) or len(block) > _MOST_BYTES:
            return False
        if len(self._names) == 1 or (self._mark.isspace() and _BLANK_LINE.search(block)):
            return False
        if self._long and (self._has_quotes(block) or _STAND_IN in block):
            return False
        return len(self._quote) < 2 or not self._has_quotes(block)  # Arrow's is one byte

    def _has_quotes(self, block: bytes) -> bool:
        return bool(self._quote) and self._quote in block
