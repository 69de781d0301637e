"""What is measured over the records of one result: one pass, memory bounded by a batch.

Records are chosen for a closer look by the smallest hashes (`record_hashes`) of different content:
a fair sample that depends neither on their order nor on how they lie in files.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.commit import finished, writing
from ingot.converters.errors import ConversionError
from ingot.converters.lake.duplicates import find
from ingot.converters.lake.facts import Figures
from ingot.converters.lake.record_hashes import WIDTH, Hashes, beginnings, hashes, write_header
from ingot.converters.lake.samples import Begun, begun, shown, spoken
from ingot.converters.record_kinds import KINDS
from ingot.converters.records import kind_of_schema, read_batches
from ingot.converters.shard import RECORDS
from ingot.converters.text_language import recognized
from ingot.converters.whole_files import whole_file

HEARD: Final = 200  # records whose language is recognized
SHOWN: Final = 3
LANGUAGES: Final = 1_000  # different values of meta.language that are told apart
OTHERS: Final = "*"
_LANGUAGE_CHARS: Final = 40
# Bin 0 holds records without a character, bin i those of 2**(i-1) and more.
_POWERS: Final = np.array([1 << power for power in range(63)], np.int64)


def measure(result: Path, hashed: Path, redact: Callable[[str], str]) -> Figures:
    """Read the records of a finished result once.

    Of `meta.language` the first 1,000 different values are told apart, the records of the others
    are counted under `*`; of each value 40 characters are kept.

    Args:
        result: the folder of the result.
        hashed: the file for the hashes, NumPy's array (records, 16) of bytes in the order of the
            records; it appears whole, and can be mapped.
        redact: takes out of a text what people should not see; called for samples only.

    Raises:
        ConversionError: there is no finished result, or its records cannot be read or are not as
            many as its manifest says.
        OutputError: the hashes cannot be written.
    """
    done = finished(result)
    if done is None:
        raise ConversionError(str(result), "holds no finished result", "convert the data set again")
    taken = _Taken()
    with writing(hashed), whole_file(hashed) as stream:
        _write_hashes(stream, taken.take(read_batches(result / RECORDS)))
        _check(result, taken.records, done.manifest["records"]["written"])
    work = hashed.with_name(f".{hashed.name}.bins")
    within = find({"": hashed}, work=work).sets[""].within
    return replace(taken.figures(redact), within=within)


def _check(result: Path, records: int, written: int) -> None:
    if records != written:
        problem = f"holds {records} records, its manifest says {written}"
        raise ConversionError(str(result), problem, "convert the data set again")


def _write_hashes(stream: BinaryIO, parts: Iterator[Hashes]) -> None:
    write_header(stream, 0, WIDTH)
    records = 0  # known at the end
    for part in parts:
        stream.write(part.data)
        records += len(part)
    stream.seek(0)
    write_header(stream, records, WIDTH)


class _Taken:
    """What was seen of the records so far."""

    def __init__(self) -> None:
        self.records = 0
        self._characters = 0
        self._bins = np.zeros(len(_POWERS) + 1, np.int64)
        self._languages: Counter[str] = Counter()
        self._chosen = _Smallest(HEARD)

    def take(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Hashes]:
        """Look at every batch, and give its hashes."""
        for batch in batches:
            hashed = hashes(batch)
            self.records += batch.num_rows
            self._count_characters(batch)
            self._count_languages(batch)
            self._chosen.offer(batch, hashed)
            yield hashed

    def _count_characters(self, batch: pa.RecordBatch) -> None:
        kind = kind_of_schema(batch.schema)
        characters = KINDS[kind].batch_chars(batch) if kind else np.zeros(0, np.int64)
        self._characters += int(characters.sum())
        place = np.searchsorted(_POWERS, characters, "right")
        self._bins += np.bincount(place, minlength=len(self._bins))

    def _count_languages(self, batch: pa.RecordBatch) -> None:
        counts = pc.value_counts(pc.struct_field(batch.column("meta"), "language"))
        for one in counts.to_pylist():
            language = (one["values"] or "")[:_LANGUAGE_CHARS]
            known = language in self._languages or len(self._languages) < LANGUAGES
            self._languages[language if known else OTHERS] += one["counts"]

    def figures(self, redact: Callable[[str], str]) -> Figures:
        """All but the repeats."""
        least = [0, *_POWERS.tolist()]
        chosen = self._chosen.kept()
        heard = Counter(recognized(spoken(one)) or "" for one in chosen)
        return Figures(
            records=self.records,
            characters=self._characters,
            lengths={least[at]: int(self._bins[at]) for at in np.flatnonzero(self._bins)},
            languages=dict(sorted(self._languages.items())),
            heard=dict(sorted(heard.items())),
            samples=tuple(shown(one, redact) for one in chosen[:SHOWN]),
        )


class _Smallest:
    """The records with the smallest hashes, one per hash: the first of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, Begun] = {}
        self._limit = b"\xff" * WIDTH

    def offer(self, batch: pa.RecordBatch, hashed: Hashes) -> None:
        """Look at the records of a batch."""
        for place in self._near(beginnings(hashed)).tolist():
            key = hashed[place].tobytes()
            if key <= self._limit and key not in self._kept:
                self._kept[key] = begun(batch, place)
                self._drop_largest()

    def _near(self, begin: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Places that may be small enough, the smallest first, so that few are taken in vain."""
        near = np.flatnonzero(begin <= np.uint64(int.from_bytes(self._limit[:8], "big")))
        ordered: npt.NDArray[np.int64] = near[np.argsort(begin[near], kind="stable")]
        return ordered

    def _drop_largest(self) -> None:
        if len(self._kept) > self._most:
            del self._kept[max(self._kept)]
        if len(self._kept) == self._most:
            self._limit = max(self._kept)

    def kept(self) -> list[Begun]:
        """The records, by hash."""
        return [self._kept[key] for key in sorted(self._kept)]
