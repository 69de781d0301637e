"""Measure the records of one result in one pass."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.lake.catalog import SetFigures, read_result
from ingot.converters.lake.duplicates import find_duplicates
from ingot.converters.lake.record_hashes import (
    WIDTH,
    Hashes,
    hash_heads,
    hash_records,
    write_header,
)
from ingot.converters.output.files import output_errors, whole_file
from ingot.converters.output.store_commit import find_result
from ingot.converters.records.readers import kind_of_schema
from ingot.converters.records.schema import KINDS
from ingot.converters.sources.documents.kinds import ISO_639_1
from ingot.converters.sources.text_kinds import recognize_language

_MESSAGES: Final = 12
_CHARACTERS: Final = 16_000  # of a text, or of each message


def record_text(batch: pa.RecordBatch, row: int) -> str:
    """Return the beginning of a record's text or messages, to detect its language."""
    if "text" in batch.schema.names:
        text: str = batch.column("text")[row].as_py() or ""
        return text[:_CHARACTERS]
    messages = batch.column("messages")[row]
    first_messages = messages.values.slice(0, _MESSAGES).to_pylist() if messages.is_valid else []
    return "\n".join(((one or {}).get("content") or "")[:_CHARACTERS] for one in first_messages)


LANGUAGE_RECORDS: Final = 200  # records whose language is recognized
OTHERS: Final = "*"  # values of meta.language that name none
# Bin 0 holds records without a character, bin i those of 2**(i-1) and more.
_POWERS: Final = np.array([1 << power for power in range(63)], np.int64)


def measure_records(result: Path | str, hashed: Path) -> SetFigures:
    """Read the records of a finished result once."""
    done = find_result(result)
    if done is None:
        raise ConversionError(str(result), "holds no finished result", "convert the data set again")
    tally = _RecordTally()
    with output_errors(hashed), whole_file(hashed) as stream:
        write_header(stream, 0, WIDTH)  # how many there are is known at the end
        for part in tally.take(read_result(result, done)):
            stream.write(part.data)
        stream.seek(0)
        write_header(stream, tally.records, WIDTH)
    work = hashed.with_name(f".{hashed.name}.bins")
    within = find_duplicates({"": hashed}, work=work).sets[""].within
    return replace(tally.figures(), within=within)


class _RecordTally:
    """What was seen of the records so far."""

    def __init__(self) -> None:
        self.records = 0
        self._characters = 0
        self._bins = np.zeros(len(_POWERS) + 1, np.int64)
        self._languages: Counter[str] = Counter()
        self._chosen = _SmallestHashes(LANGUAGE_RECORDS)

    def take(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Hashes]:
        """Look at every batch, and give its hashes."""
        for batch in batches:
            hashed = hash_records(batch)
            self.records += batch.num_rows
            self._count_characters(batch)
            self._count_languages(batch)
            self._chosen.offer(batch, hashed)
            yield hashed

    def _count_characters(self, batch: pa.RecordBatch) -> None:
        kind = kind_of_schema(batch.schema)
        characters = KINDS[kind].lengths(batch, pc.utf8_length) if kind else np.zeros(0, np.int64)
        self._characters += int(characters.sum())
        bin_numbers = np.searchsorted(_POWERS, characters, "right")
        self._bins += np.bincount(bin_numbers, minlength=len(self._bins))

    def _count_languages(self, batch: pa.RecordBatch) -> None:
        counts = pc.value_counts(pc.struct_field(batch.column("meta"), "language"))
        for one in counts.to_pylist():
            language = one["values"] or ""
            known = language in ("", "mix") or language in ISO_639_1
            self._languages[language if known else OTHERS] += one["counts"]

    def figures(self) -> SetFigures:
        """Return all but the repeats and the samples."""
        lower_bounds = [0, *_POWERS.tolist()]
        recognized = Counter(recognize_language(text) or "" for text in self._chosen.texts())
        return SetFigures(
            records=self.records,
            characters=self._characters,
            lengths={
                lower_bounds[number]: int(self._bins[number])
                for number in np.flatnonzero(self._bins)
            },
            languages=dict(sorted(self._languages.items())),
            heard=dict(sorted(recognized.items())),
        )


class _SmallestHashes:
    """What the records with the smallest hashes say, once per hash."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, str] = {}
        self._limit = b"\xff" * WIDTH

    def offer(self, batch: pa.RecordBatch, hashed: Hashes) -> None:
        """Look at the records of a batch."""
        heads = hash_heads(hashed)
        candidates = np.flatnonzero(heads <= np.uint64(int.from_bytes(self._limit[:8], "big")))
        # The smallest first, so that few are taken in vain.
        for row in candidates[np.argsort(heads[candidates], kind="stable")].tolist():
            key = hashed[row].tobytes()
            if key <= self._limit and key not in self._kept:
                self._kept[key] = record_text(batch, row)
                if len(self._kept) > self._most:
                    del self._kept[max(self._kept)]
                if len(self._kept) == self._most:
                    self._limit = max(self._kept)

    def texts(self) -> list[str]:
        """Return the texts, by hash."""
        return [self._kept[key] for key in sorted(self._kept)]
