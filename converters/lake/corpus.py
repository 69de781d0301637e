"""What training reads of one data set of a lake: its records without repeats, dealt to splits.

    CORPUS/SPLIT/NAME/records/part-00000.parquet|jsonl   in the order of the result
    CORPUS/SPLIT/NAME/rejected/part-00000.jsonl          records that the tokenizer refused
    CORPUS/SPLIT/NAME/tokens/NAME.bin|.idx|.meta.json    with a tokenizer
    CORPUS/SPLIT/NAME/run.json, manifest.json

A folder is committed as a conversion's is (`commit.stage`): it appears whole or not at all, an
equal one is left as it is, another one is replaced, and a run that was killed goes on with the
records and tokens that it had finished. The manifest is that of a result with these differences:

    options     records, source (NAME), tokenizer as ever; `corpus` says what of the result is here:
                split, splits (name and fraction of all, in order), dedup {method, sha256 of the
                bitmap} or null; language and limit are null
    inputs      the record parts of the result, with their SHA-256
    rows        all 0: nothing of the raw data was read
    records     written, and duplicates: the repeats of this split that were left out. Over all
                splits their sum is what the result has written.

A split that gets no record of a set says so with an empty `records/`. Nothing depends on a time, on
the place of the lake, or on other data sets but for the repeats.
"""

import hashlib
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, TypedDict, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingot.converters.convert import result as manifests
from ingot.converters.convert.record_tokens import TokenCounts, make_tokens, tokenizer_facts
from ingot.converters.convert.result import RECORDS_FOLDER, Manifest
from ingot.converters.errors import ConversionError, NoTokensError
from ingot.converters.json_yaml import find_json
from ingot.converters.lake.catalog import Split, read_result
from ingot.converters.lake.duplicates import drop_mask, open_drops, open_hashes
from ingot.converters.lake.record_hashes import ALL, Hashes, Splits, hash_heads, hash_records
from ingot.converters.output.commit import StagedResult, remove_result
from ingot.converters.output.difference import FinishedResult
from ingot.converters.output.files import (
    FileEntry,
    encode_json,
    file_entry,
    output_errors,
    sync_tree,
    write_file,
)
from ingot.converters.output.identity import RunIdentity
from ingot.converters.output.object_store import list_names
from ingot.converters.output.store_commit import find_result, remove_stored
from ingot.converters.progress import peak_rss
from ingot.converters.records.delta_log import write_delta_log
from ingot.converters.records.writers import PartsWriter

_WRITTEN: Final = "written.json"  # in the work folder: the records are there, and these


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """What is made of every result of a lake: its splits, and tokens where a tokenizer is named."""

    splits: Splits = ALL
    tokenizer: str | None = None


def write_corpus(
    result: Path | str,
    corpus: Path | str,
    name: str,
    options: CorpusOptions | None = None,
    *,
    drops: Path | None = None,
    hashed: Path | None = None,
) -> tuple[Split, ...]:
    """Write one data set's part of every split; result and corpus are folders or URLs."""
    finished = find_result(result)
    if finished is None or finished.manifest["decision"] not in ("pt", "sft"):
        problem = "holds no finished result with records"
        raise ConversionError(str(result), problem, "convert the data set first")
    data_set = _Corpus(
        place=result,
        result=finished,
        name=name,
        options=options or CorpusOptions(),
        drops=open_drops(drops, finished.manifest["records"]["written"]) if drops else None,
        hashed=open_hashes(hashed) if hashed else None,
    )
    with ExitStack() as stack:
        staged_splits: dict[str, StagedResult] = {}
        for split in data_set.options.splits.names:
            staging = data_set.identity(split).stage(f"{corpus}/{split}/{name}", overwrite=True)
            staged_splits[split] = stack.enter_context(staging)
        pending = [
            _PendingSplit(data_set, split, one)
            for split, one in staged_splits.items()
            if not one.done
        ]
        data_set.write_records(pending)
        for one in pending:
            one.make_tokens()
        for one in pending:  # close together: splits of two kinds must not stay side by side
            one.commit()
        fresh = {one.split: one.manifest for one in pending}
        done = {
            split: staged.done.manifest for split, staged in staged_splits.items() if staged.done
        }
        written = cast("dict[str, Manifest]", {**done, **fresh})
        return tuple(data_set.split_facts(split, written[split]) for split in staged_splits)


def sweep_corpus(corpus: Path | str, expected: Iterable[tuple[str, str]]) -> list[str]:
    """Delete what an earlier run wrote and this one did not: other splits, sets that are gone."""
    if isinstance(corpus, str):
        return _sweep_store(corpus, {f"{split}/{name}" for split, name in expected})
    expected_folders = {corpus / split / name for split, name in expected}
    with output_errors(corpus):
        finished = sorted(corpus.glob("[!.]*/[!.]*/manifest.json"))
    stale = [
        one.parent
        for one in finished
        if one.parent not in expected_folders and _is_corpus(one.parent)
    ]
    removed = [folder for folder in stale if remove_result(folder)]
    for folder in {one.parent for one in removed}:
        with suppress(OSError):  # something is in it still
            folder.rmdir()
    return [one.relative_to(corpus).as_posix() for one in removed]


def _sweep_store(corpus: str, expected: set[str]) -> list[str]:
    names = {name.removesuffix("/manifest.json") for name in list_names(corpus)} - expected
    stale = [one for one in sorted(names) if one.count("/") == 1 and _is_corpus(f"{corpus}/{one}")]
    for one in stale:
        remove_stored(f"{corpus}/{one}")
    return stale


def _is_corpus(location: Path | str) -> bool:
    finished = find_result(location)
    options = finished.manifest.get("options") if finished else None
    return isinstance(options, dict) and "corpus" in options


@dataclass(frozen=True, kw_only=True)
class _Corpus:
    """One data set on its way into the corpus."""

    place: Path | str
    result: FinishedResult
    name: str
    options: CorpusOptions
    drops: NDArray[np.uint8] | None
    hashed: Hashes | None

    def identity(self, split: str) -> RunIdentity:
        """Return what decides the bytes of a split."""
        dedup, result = None, cast("Manifest", self.result.manifest)
        if self.drops is not None:
            dedup = {"method": "exact", "sha256": hashlib.sha256(self.drops.tobytes()).hexdigest()}
        tokenizer, splits = self.options.tokenizer, self.options.splits.to_json()
        files = result.get("files", [])
        parts = [one for one in files if PurePosixPath(one["path"]).parent.name == RECORDS_FOLDER]
        return RunIdentity(
            settled={
                "decision": result["decision"],
                "versions": manifests.VERSIONS,
                "mapping_sha256": result["mapping_sha256"],
                "options": {
                    "records": result["options"]["records"],
                    "language": None,
                    "source": self.name,
                    "limit": None,
                    "tokenizer": tokenizer_facts(tokenizer) if tokenizer else None,
                    "corpus": {"splits": splits, "dedup": dedup, "split": split},
                },
                "inputs": [
                    {"name": one["path"], "bytes": one["bytes"], "sha256": one["sha256"]}
                    for one in parts
                ],
            }
        )

    def write_records(self, pending: Sequence["_PendingSplit"]) -> None:
        """Read the result once, for all splits that have not their records yet."""
        waiting = [one for one in pending if not one.has_records()]
        if not waiting:
            return
        with ExitStack() as stack:
            for one in waiting:
                one.open_records(stack)
            start = 0
            for batch in read_result(self.place, self.result):
                split_numbers, out = self._places(batch, start), np.zeros(batch.num_rows, np.bool_)
                if self.drops is not None:
                    out = drop_mask(self.drops, start, batch.num_rows)
                for one in waiting:
                    one.take(
                        batch, split_numbers == self.options.splits.names.index(one.split), out
                    )
                start += batch.num_rows
        for one in waiting:
            one.close_records()

    def _places(self, batch: pa.RecordBatch, start: int) -> NDArray[np.int64]:
        """For each record the place of its split."""
        if len(self.options.splits.names) == 1 and self.hashed is None:
            return np.zeros(batch.num_rows, np.int64)
        hashes = hash_records(batch)
        known = None if self.hashed is None else self.hashed[start : start + batch.num_rows]
        if known is not None and not np.array_equal(known, hashes):
            problem = "its hashes belong to other records"
            hint = "delete `.ingot-lake/hashes` and run again: ingot writes it again"
            raise ConversionError(str(self.place), problem, hint)
        return self.options.splits.places(hash_heads(hashes))

    def split_facts(self, split: str, manifest: Manifest) -> Split:
        """Return what a manifest says, for the catalog."""
        records, tokens = manifest["records"], manifest["tokens"]
        none = 0 if self.options.tokenizer else None
        return Split(
            name=split,
            records=records["written"],
            duplicates=records["duplicates"],
            tokens=tokens["tokens"] if tokens else none,
        )


class _WrittenRecords(TypedDict):
    records: int
    duplicates: int
    parts: list[FileEntry]


class _PendingSplit:
    """One split of the set that is being written."""

    def __init__(self, corpus: _Corpus, split: str, staged: StagedResult) -> None:
        self.split = split
        self.manifest: dict[str, object] = {}
        self._corpus = corpus
        self._staged = staged
        self._started = time.monotonic()
        self._records = staged.result / RECORDS_FOLDER
        self._tokens: TokenCounts | None = None
        self._duplicates = 0
        self._parts: PartsWriter | None = None
        self._written: _WrittenRecords = {"records": 0, "duplicates": 0, "parts": []}

    def has_records(self) -> bool:
        """Return whether a run that was killed had written all records."""
        written = find_json(self._staged.work / _WRITTEN, own=True)
        if written:
            self._written = cast("_WrittenRecords", written)
        return bool(written)

    def open_records(self, stack: ExitStack) -> None:
        """Begin anew; the parts are closed with the stack."""
        with output_errors(self._staged.out):
            shutil.rmtree(self._records, ignore_errors=True)
            self._records.mkdir()
        manifest = self._corpus.result.manifest
        kind, format = manifest["decision"], manifest["options"]["records"]
        self._parts = stack.enter_context(PartsWriter(self._records, kind=kind, format=format))

    def take(self, batch: pa.RecordBatch, ours: NDArray[np.bool_], out: NDArray[np.bool_]) -> None:
        """Write the records of a batch that are of this split and not left out."""
        self._duplicates += int((ours & out).sum())
        selected = ours & ~out
        if self._parts and selected.any():
            self._parts.write_batch(batch if selected.all() else batch.filter(pa.array(selected)))

    def close_records(self) -> None:
        """Note that all are there, so that a later run need not write them again."""
        with output_errors(self._staged.out):
            sync_tree(self._records)
            result = self._staged.result
            files = sorted(path.relative_to(result) for path in self._records.iterdir())
            self._written = {
                "records": self._parts.rows if self._parts else 0,
                "duplicates": self._duplicates,
                "parts": [file_entry(result, path) for path in files],
            }
            manifest = self._corpus.result.manifest
            if manifest["options"]["records"] == "delta":
                write_delta_log(self._records, self._written["parts"], manifest["decision"])
            write_file(self._staged.work / _WRITTEN, encode_json(self._written))

    def make_tokens(self) -> None:
        """Tokenize what was written, as a conversion does."""
        tokenizer, parts = self._corpus.options.tokenizer, self._written["parts"]
        if tokenizer is None or not parts:
            return
        with output_errors(self._staged.out):
            (self._staged.result / manifests.REJECTED_FOLDER).mkdir(exist_ok=True)
        rejects = manifests.Parts(records=parts, rejected=[]).next_rejects()
        name = self._corpus.name
        with suppress(NoTokensError):  # a few records may be such that the tokenizer refuses all
            self._tokens = make_tokens(self._staged, parts, tokenizer, name=name, rejects=rejects)
        with suppress(OSError):  # there are some
            (self._staged.result / manifests.REJECTED_FOLDER).rmdir()

    def commit(self) -> None:
        """Give the split its name."""
        run = {
            "seconds": round(time.monotonic() - self._started, 3),
            **self._staged.found_facts(),
            "peak_rss_bytes": peak_rss(),
        }
        counts = {"written": self._written["records"], "duplicates": self._written["duplicates"]}
        manifest: dict[str, object] = {
            "reason": None,
            "left_out": [],
            "rows": dict.fromkeys(manifests.ROW_COUNTS, 0),
            "records": {**dict.fromkeys(manifests.RECORD_COUNTS, 0), **counts},
            "rejects": {},
            "warnings": {"mapping": [], "meta": {}, "paths": {}},
            "tokens": self._tokens,
        }
        identity = self._corpus.identity(self.split)
        self.manifest, _ = identity.commit(self._staged, manifest, run, self._written["parts"])
