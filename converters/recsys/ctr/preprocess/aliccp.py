r"""The raw files of Ali-CCP: `sample_skeleton_*.csv` and `common_features_*.csv`.

A line of the skeleton is `sample_id,click,purchase,common_feature_index,feature_num,feature_list`,
one of the common features `common_feature_index,feature_num,feature_list`; no header, no quoting.
A list is tokens joined by `\x01`, a token is `field \x02 id \x03 value`. Nothing is stripped.
"""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ingot.converters.columnar.batch_checks import is_utf8
from ingot.converters.errors import SourceError
from ingot.converters.recsys.ctr.preprocess import token_kernels
from ingot.converters.recsys.ctr.preprocess.row_collector import Rows, Tokens
from ingot.converters.recsys.ctr.preprocess.vocabulary import Interner
from ingot.converters.recsys.ctr.table.table_cells import Reject, round_to_finite
from ingot.converters.rows import read_ahead

BLOCK: Final = 8 << 20
_LONGEST: Final = 1 << 30
_SHOWN: Final = 200
_NEWLINE, _JOIN = 10, 1
_END: Final = re.compile(rb"[\x01\n]")

_Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a kind of line has what."""

    commas: int
    entity: int
    labels: tuple[int, ...] = ()
    sample: int | None = None  # column of the sample's id; None for common features


SKELETON: Final = Layout(commas=5, entity=3, labels=(1, 2), sample=0)
COMMON: Final = Layout(commas=2, entity=0)


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The raw fields that count, in the order of their numbers."""

    names: tuple[str, ...]
    numbers: NDArray[np.int16]  # int16, the place of each in `FeatureMap.sources`

    def flat(self) -> token_kernels.FieldNames:
        """Join all names."""
        encoded = [name.encode() for name in self.names]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        return token_kernels.FieldNames(np.frombuffer(b"".join(encoded) or b"\0", np.uint8), ends)


def read_rows(
    stream: BinaryIO,
    name: str,
    layout: Layout,
    fields: Fields,
    interner: Interner,
    entities: Interner,
    size: int = BLOCK,
) -> Iterator[Rows]:
    """Yield the rows of a file, block by block; the next block is parsed meanwhile."""
    first = 0
    parsed = (_Block(block, layout, fields) for block in _blocks(stream, name, size))
    with ThreadPoolExecutor(1, "parse") as reader:
        for lines in read_ahead(parsed, reader):
            yield lines.rows(name, first, interner, entities)
            first += len(lines.starts)


def _blocks(stream: BinaryIO, name: str, size: int) -> Iterator[_Bytes]:
    rest = b""
    wanted = size
    while chunk := stream.read(wanted):
        end = chunk.rfind(b"\n") + 1
        if not end:
            rest += chunk
            if len(rest) > _LONGEST:
                problem = f"a line is longer than {_LONGEST >> 30} GiB"
                raise SourceError(name, problem, "is it a raw Ali-CCP file?")
            wanted = max(size, len(rest))  # a long line is not copied again and again
            continue
        yield np.frombuffer(rest + chunk[:end], np.uint8)
        rest, wanted = chunk[end:], size
    if rest:
        yield np.frombuffer(rest, np.uint8)


class _Block:
    """One block of lines on its way to rows."""

    def __init__(self, block: _Bytes, layout: Layout, fields: Fields) -> None:
        self._block, self._layout, self._fields = block, layout, fields
        room = int(np.count_nonzero(block == _NEWLINE)) + 1
        starts, ends = np.empty(room, np.int64), np.empty(room, np.int64)
        cuts, plain = np.empty((room, layout.commas), np.int64), np.empty(room, np.bool_)
        count = token_kernels.scan_lines(
            block, len(block), layout.commas, starts, ends, cuts, plain
        )
        self.starts, self._ends = starts[:count], ends[:count]
        self._cuts, self._plain = cuts[:count], plain[:count]
        self._problems: dict[int, tuple[str, bytes]] = {}
        self._clicks, self._purchases = self._labels()
        # Note lines whose entity is empty, or whose columns before the list are no UTF-8.
        whole = np.flatnonzero(self._cuts[:, -1] >= 0)
        lengths = self._column(self._layout.entity, whole)[1]
        for line in whole[lengths == 0].tolist():
            self._problems.setdefault(line, ("entity_id", b""))
        for line in whole[~self._plain[whole]].tolist():
            entity = self._text(line, self._layout.entity)
            if not is_utf8(entity):
                self._problems.setdefault(line, ("entity_id", entity))
        kept = np.ones(len(self.starts), np.bool_)
        kept[list(self._problems)] = False
        self._good = np.flatnonzero(kept)
        self._parsed = self._parse_tokens()

    def rows(self, name: str, first: int, interner: Interner, entities: Interner) -> Rows:
        good, samples = self._good, self._layout.sample
        return Rows(
            rows=good + first,
            clicks=self._clicks[good],
            purchases=self._purchases[good],
            entities=entities.add(self._block, *self._column(self._layout.entity, good)),
            samples=None
            if samples is None
            else token_kernels.hash_spans(self._block, *self._column(samples, good)),
            tokens=self._tokens(interner),
            counts=self._parsed.counts,
            rejects=tuple(
                Reject(
                    file=name,
                    row=line + first,
                    reason=reason,
                    found=found[:_SHOWN].decode(errors="backslashreplace"),
                )
                for line, (reason, found) in sorted(self._problems.items())
            ),
        )

    def _column(
        self, column: int, lines: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        cuts = self._cuts[lines]
        starts = cuts[:, column - 1] + 1 if column else self.starts[lines]
        return starts, (cuts[:, column] - starts).astype(np.int32)

    def _text(self, line: int, column: int) -> bytes:
        start, length = self._column(column, np.array([line]))
        return self._block[start[0] : start[0] + length[0]].tobytes()

    def _labels(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Click and purchase of every line; 0 where the line is none, which is noted."""
        count = len(self.starts)
        short = self._cuts[:, -1] < 0
        for line in np.flatnonzero(short).tolist():
            text = self._block[self.starts[line] : self._ends[line]]
            self._problems[line] = ("columns", text[:_SHOWN].tobytes())
        found = [np.zeros(count, np.uint8), np.zeros(count, np.uint8)]
        whole = np.flatnonzero(~short)
        for place, column in enumerate(self._layout.labels):
            starts, lengths = self._column(column, whole)
            digits = self._block[starts] - np.uint8(48)  # a comma follows: there is a byte
            odd = (lengths != 1) | (digits > 1)
            found[place][whole] = np.where(odd, 0, digits)
            for line in whole[odd].tolist():
                self._problems.setdefault(line, ("label", self._text(line, column)))
        return found[0], found[1]

    def _parse_tokens(self) -> "_ParsedTokens":
        starts = self._cuts[self._good, -1] + 1
        ends = np.maximum(self._ends[self._good], starts)
        parsed = _ParsedTokens(self._block, starts, ends, self._fields)
        parsed.settle(len(self._fields.names))
        expected = self._stated_token_counts(self._good)
        parsed.counts["wrong_count"] = int(np.count_nonzero(expected != parsed.pieces))
        return parsed

    def _tokens(self, interner: Interner) -> tuple[Tokens, ...]:
        tokens, fields = self._parsed.tokens, self._fields
        codes = interner.add(self._block, tokens.ids, tokens.lengths, fields.numbers[tokens.fields])
        bounds, offsets, codes, values = token_kernels.group_tokens(
            tokens.rows, tokens.fields, codes, tokens.values, len(self._good), len(fields.names)
        )
        return tuple(
            Tokens(
                offsets=offsets[at],
                codes=codes[bounds[at] : bounds[at + 1]],
                values=values[bounds[at] : bounds[at + 1]],
            )
            for at in range(len(fields.names))
        )

    def _stated_token_counts(self, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        """The stated number of tokens of lines; -1 where it is no number of up to 9 digits."""
        starts, lengths = self._column(self._layout.commas - 1, lines)
        numbers = np.zeros(len(lines), np.int64)
        bad = (lengths < 1) | (lengths > 9)
        for place in range(9):
            there = (place < lengths) & ~bad
            digits = self._block[np.where(there, starts + place, 0)].astype(np.int64) - 48
            bad |= there & ((digits < 0) | (digits > 9))
            numbers = np.where(there, numbers * 10 + digits, numbers)
        return np.where(bad, -1, numbers)


class _ParsedTokens:
    """The tokens of a block, in order, and how many pieces each of its rows has."""

    def __init__(
        self, block: _Bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], fields: Fields
    ) -> None:
        room = int(np.count_nonzero(block == _JOIN)) + len(starts)
        kinds = (np.int32, np.int16, np.int64, np.int32, np.float32, np.int64, np.bool_)
        tokens = token_kernels.TokenArrays._make(np.empty(room, kind) for kind in kinds)
        self.block = block
        self.pieces = np.empty(len(starts), np.int32)
        count, no_id, no_value = token_kernels.parse_tokens(
            block, starts, ends, fields.flat(), tokens, self.pieces
        )
        self.tokens = tokens.take(np.arange(count))
        self.counts = Counter({"no_id": no_id, "no_value": no_value})
        self.counts["read"] = int(self.pieces.sum(dtype=np.int64))

    def settle(self, unknown: int) -> None:
        """Read what the kernel left to Python; drop what is malformed and what is not wanted."""
        tokens = self.tokens
        good = np.ones(len(tokens.rows), np.bool_)
        doubtful = np.flatnonzero(tokens.doubtful)
        if len(doubtful) and is_utf8(self.block.tobytes()):  # then every id is
            doubtful = np.flatnonzero(np.isnan(tokens.values))
        if len(doubtful):
            good[doubtful] = self._reread(doubtful)
        wanted = tokens.fields != unknown
        self.counts["unmapped"] = int(np.count_nonzero(good & ~wanted))
        if not (good & wanted).all():
            self.tokens = tokens.take(np.flatnonzero(good & wanted))

    def _reread(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Read tokens as Python does; whether each of them is one."""
        text, tokens = self.block.tobytes(), self.tokens
        columns = (tokens.ids[places], tokens.lengths[places], tokens.numbers[places])
        numbers = []
        for first, length, number in zip(*(column.tolist() for column in columns), strict=True):
            end = _END.search(text, number)
            value = text[number : end.start() if end else len(text)]
            numbers.append(self._number(text[first : first + length], value))
        good = np.array([number is not None for number in numbers])
        # What is no number becomes NaN, then 0; it is not counted as that.
        tokens.values[places], odd = round_to_finite(np.array(numbers, np.float64))
        self.counts["not_finite"] += odd - int(np.count_nonzero(~good))
        return good

    def _number(self, name: bytes, number: bytes) -> float | None:
        if not is_utf8(name):
            self.counts["not_utf8"] += 1
            return None
        try:
            return float(number.decode())
        except ValueError:  # no UTF-8 is one of them
            self.counts["bad_number"] += 1
            return None
