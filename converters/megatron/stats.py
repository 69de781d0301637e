"""What a finished data set says about itself: the counts of its files, and of the whole."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingot.converters.megatron.assembling import total
from ingot.converters.megatron.indexed import TokenDtype
from ingot.converters.megatron.journal import Stretch
from ingot.converters.megatron.units import InputFile, Unit
from ingot.converters.megatron.writing import COUNTS
from ingot.converters.rows import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenStats:
    """A finished data set.

    Attributes:
        documents: documents of the data set, the empty ones that it keeps included.
        sequences: sequences of the data set.
        tokens: ids written; BOS, EOS and EOD included.
        characters: characters of the tokenized texts (chats as rendered).
        rejected: rows that could not be tokenized, each listed in the file of rejects.
        filtered: rows that the limits left out.
        failed_files: files that could not be read.
        dtype: `uint16` or `int32`.
        eod_id: the id after every document, None = none.
        vocabulary: tokens of the tokenizer.
        tokenizer_sha256: of the tokenizer's file.
        already_done: the very data set was there before.
        engine: what tokenized it; empty where nothing had to be.
        engine_mbps: what that engine does with text in memory, all threads together, in MB/s; None
            where it was not measured.
    """

    documents: int
    sequences: int
    tokens: int
    characters: int
    rejected: int
    filtered: int
    failed_files: int
    dtype: TokenDtype
    eod_id: int | None
    vocabulary: int
    tokenizer_sha256: str
    already_done: bool = False
    engine: str = ""
    engine_mbps: float | None = None


def counted(
    files: Sequence[InputFile],
    units: Sequence[Unit],
    finished: Mapping[int, Stretch],
    failures: Mapping[int, str],
) -> dict[str, Json]:
    """The `counts` and the `files` of `.meta.json`.

    Args:
        files: in order.
        units: the whole plan.
        finished: units that are done, by number.
        failures: by number, the files that are left out, and why.
    """
    by_file: dict[int, list[Stretch]] = {}
    for unit in units:
        if unit.file not in failures:
            by_file.setdefault(unit.file, []).append(finished[unit.number])
    entries: list[dict[str, Json]] = []
    for number, file in enumerate(files):
        entry: dict[str, Json] = {"path": file.name, "bytes": file.bytes}
        if number in failures:
            entries.append({**entry, "status": "failed", "error": failures[number]})
        else:
            entries.append({**entry, "status": "done", **_shown(total(by_file[number]))})
    counts = total([stretch for some in by_file.values() for stretch in some])
    of_files = {"files": len(files), "failed_files": len(failures)}
    return {"counts": {**of_files, **_shown(counts)}, "files": entries}


def _shown(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in COUNTS}


def stats_of(meta: Mapping[str, Json], *, already_done: bool = False) -> TokenStats:
    """The stats of a data set with that `.meta.json`."""
    counts = meta["counts"]
    names = ("documents", "sequences", "tokens", "characters", "rejected", "failed_files")
    return TokenStats(
        **{name: counts[name] for name in names},
        filtered=counts["short"] + counts["long"],
        dtype=meta["dtype"],
        eod_id=meta["eod_id"],
        vocabulary=meta["tokenizer"]["vocab_size"],
        tokenizer_sha256=meta["tokenizer"]["sha256"],
        already_done=already_done,
    )
