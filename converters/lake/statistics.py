"""Measure the records of one result in one pass, with a few redacted samples for people."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import map_leaves
from ingot.converters.lake.catalog import Figures, read_result
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
from ingot.converters.records.schema import KINDS, Record
from ingot.converters.rows import Json, Safe
from ingot.converters.sources.text_kinds import recognize_language

RecordBeginning = Record
"""A record of which long texts and long conversations are only begun."""

MESSAGES: Final = 12
TEXT_CHARS: Final = 4_000
TURN_CHARS: Final = 1_000
META_CHARS: Final = 200
MORE: Final = "…"
# Secrets are looked for in more than is shown, so that none is shown because it was cut in two.
_READ: Final = 4


def record_beginning(batch: pa.RecordBatch, place: int) -> RecordBeginning:
    """The record at a place of a batch; `messages_left_out` counts messages that are cut off."""
    record: RecordBeginning = {}
    for name in batch.schema.names:
        value = batch.column(name)[place]
        if name == "messages" and value.is_valid:
            record["messages_left_out"] = max(len(value) - MESSAGES, 0)
            value = value.values.slice(0, MESSAGES)
        value = value.to_pylist() if isinstance(value, pa.Array) else value.as_py()
        record[name] = map_leaves(value, partial(_text_beginning, limit=_limit(name)))
    return record


def _limit(name: str) -> int:
    return {"text": TEXT_CHARS, "meta": META_CHARS}.get(name, TURN_CHARS)


def _text_beginning(value: Json, limit: int) -> Json:
    return value[: _READ * limit + 1] if isinstance(value, str) else value


def record_text(record: RecordBeginning) -> str:
    """What the record says, to tell its language: the text, or the contents of its messages."""
    if "text" in record:
        return record["text"] or ""
    messages = record["messages"] or []
    return "\n".join((one or {}).get("content") or "" for one in messages)


def redact_record(record: RecordBeginning, redact: Callable[[str], Safe]) -> Record:
    """The record redacted, its texts cut; a text that is cut ends in `…`."""
    kept = {
        name: value
        for name, value in record.items()
        if value or name not in ("messages_left_out", "tools")
    }
    return {
        name: map_leaves(value, partial(_redact_text, limit=_limit(name), redact=redact))
        for name, value in kept.items()
    }


def _redact_text(text: Json, limit: int, redact: Callable[[str], Safe]) -> Json:
    if not isinstance(text, str):
        return text
    whole = len(text) <= _READ * limit
    clean = redact(text)
    if whole and len(clean) <= limit:
        return clean
    # Of a text that was begun only the end may hold half a secret, however short it became.
    return clean[: limit if whole else min(limit, len(clean) // 2)] + MORE


LANGUAGE_RECORDS: Final = 200  # records whose language is recognized
SHOWN_SAMPLES: Final = 3
LANGUAGES: Final = 1_000  # different values of meta.language that are told apart
OTHERS: Final = "*"
_LANGUAGE_CHARS: Final = 40
# Bin 0 holds records without a character, bin i those of 2**(i-1) and more.
_POWERS: Final = np.array([1 << power for power in range(63)], np.int64)


def measure_records(result: Path | str, hashed: Path, redact: Callable[[str], Safe]) -> Figures:
    """Read the records of a finished result once."""
    done = find_result(result)
    if done is None:
        raise ConversionError(str(result), "holds no finished result", "convert the data set again")
    taken = _RecordTally()
    with output_errors(hashed), whole_file(hashed) as stream:
        write_header(stream, 0, WIDTH)  # how many there are is known at the end
        for part in taken.take(read_result(result, done)):
            stream.write(part.data)
        stream.seek(0)
        write_header(stream, taken.records, WIDTH)
    work = hashed.with_name(f".{hashed.name}.bins")
    within = find_duplicates({"": hashed}, work=work).sets[""].within
    return replace(taken.figures(redact), within=within)


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
        place = np.searchsorted(_POWERS, characters, "right")
        self._bins += np.bincount(place, minlength=len(self._bins))

    def _count_languages(self, batch: pa.RecordBatch) -> None:
        counts = pc.value_counts(pc.struct_field(batch.column("meta"), "language"))
        for one in counts.to_pylist():
            language = (one["values"] or "")[:_LANGUAGE_CHARS]
            known = language in self._languages or len(self._languages) < LANGUAGES
            self._languages[language if known else OTHERS] += one["counts"]

    def figures(self, redact: Callable[[str], Safe]) -> Figures:
        """All but the repeats."""
        least = [0, *_POWERS.tolist()]
        chosen = self._chosen.sorted_records()
        heard = Counter(recognize_language(record_text(one)) or "" for one in chosen)
        return Figures(
            records=self.records,
            characters=self._characters,
            lengths={least[at]: int(self._bins[at]) for at in np.flatnonzero(self._bins)},
            languages=dict(sorted(self._languages.items())),
            heard=dict(sorted(heard.items())),
            samples=tuple(redact_record(one, redact) for one in chosen[:SHOWN_SAMPLES]),
        )


class _SmallestHashes:
    """The records with the smallest hashes, one per hash: the first of it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[bytes, RecordBeginning] = {}
        self._limit = b"\xff" * WIDTH

    def offer(self, batch: pa.RecordBatch, hashed: Hashes) -> None:
        """Look at the records of a batch."""
        begin = hash_heads(hashed)
        near = np.flatnonzero(begin <= np.uint64(int.from_bytes(self._limit[:8], "big")))
        # The smallest first, so that few are taken in vain.
        for place in near[np.argsort(begin[near], kind="stable")].tolist():
            key = hashed[place].tobytes()
            if key <= self._limit and key not in self._kept:
                self._kept[key] = record_beginning(batch, place)
                if len(self._kept) > self._most:
                    del self._kept[max(self._kept)]
                if len(self._kept) == self._most:
                    self._limit = max(self._kept)

    def sorted_records(self) -> list[RecordBeginning]:
        """The records, by hash."""
        return [self._kept[key] for key in sorted(self._kept)]
