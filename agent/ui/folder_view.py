"""What the page shows of folders: what lies in one, and the figures and records of a result.

Records and rejects go through the redactor that knows no data set. Tokens are shown one by one, as
they lie in the files.
"""

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingot.agent.lake.lake_state import LakeState
from ingot.agent.privacy import Redactor
from ingot.agent.ui.example_rows import Facts, view_record
from ingot.converters.convert.record_tokens import TOKENS
from ingot.converters.convert.result import RECORDS_FOLDER, REJECTED_FOLDER
from ingot.converters.errors import ConversionError
from ingot.converters.json_yaml import find_json
from ingot.converters.mapping.bind import MAX_BYTES
from ingot.converters.megatron.indexed_dataset import IndexedDataSet, open_data_set
from ingot.converters.megatron.inspect.inspection import measure_lengths, open_tokenizer
from ingot.converters.megatron.tokenizer import TokenizerFile, decode_ids
from ingot.converters.output.commit import has_counts
from ingot.converters.records.readers import read_batches, read_records, record_files
from ingot.converters.records.schema import KINDS, Record
from ingot.converters.rows import Json

_MEASURED = 50_000  # records whose lengths are counted
_MOST = 100  # records, rejects or documents of one answer
_DOCUMENT_TOKENS = 2_000  # of a document that is shown
_CHARACTER_TOKENS = 4  # that one character may take
_NO_TOKENIZER = "no tokenizer was named: ids are shown"
_MASKS = ".loss_mask"
_ENTRIES, _LOOKED_AT = 500, 20_000  # of a folder that are shown, and that are looked at


def list_folder(folder: Path, root: Path) -> Facts:
    """List a folder below the root; hidden entries, and links that leave the root, are left out."""
    if not folder.is_dir():
        raise ConversionError(str(folder.relative_to(root)), "is not a folder below the root")
    with os.scandir(folder) as entries:
        visible = [entry for entry in islice(entries, _LOOKED_AT) if not entry.name.startswith(".")]
    visible = [entry for entry in visible if root in Path(entry.path).resolve().parents]
    visible.sort(key=lambda entry: (not entry.is_dir(), entry.name))
    place = str(folder.relative_to(root)) if folder != root else ""
    return {
        "path": place,
        "parent": None if folder == root else os.path.dirname(place),  # noqa: PTH120 - "" is the root
        "entries": [_describe_entry(entry, root) for entry in visible[:_ENTRIES]],
        "more": max(len(visible) - _ENTRIES, 0),
    }


def _describe_entry(entry: os.DirEntry[str], root: Path) -> Facts:
    path = Path(entry.path)
    kind = _folder_kind(path) if entry.is_dir() else _file_kind(path)
    return {
        "name": entry.name,
        "path": str(path.relative_to(root)),
        "kind": kind,
        "bytes": entry.stat().st_size if entry.is_file() else None,
    }


def _folder_kind(folder: Path) -> str:
    if LakeState(folder).folder.is_dir():
        return "lake"
    if folder.name.endswith(".proposal"):
        return "proposal"
    return "result" if (folder / "manifest.json").is_file() else "folder"


def _file_kind(file: Path) -> str:
    if file.suffix != ".json" or not file.is_file() or file.stat().st_size > MAX_BYTES:
        return "file"
    document = find_json(file) or {}
    stated = document.get("version") == 2 and {"text", "messages", "any_of"} & document.keys()
    return "mapping" if stated else "file"


# --- results


def view_result(folder: Path) -> Facts:
    """Return the figures of a result. Raises ConversionError if it holds none."""
    manifest = _read_manifest(folder)
    facts = {name: manifest.get(name) for name in ("rows", "records", "reason")}
    filtered = {"filtered": count} if (count := manifest["records"]["filtered"]) else {}
    return {
        "kind": manifest["decision"],
        "source": manifest["options"].get("source"),
        **facts,
        "rejects": {**manifest["rejects"], **filtered},
        "files": [{"name": file["path"], "bytes": file["bytes"]} for file in manifest["files"]],
        "lengths": _count_lengths(folder, manifest["decision"]),
        "tokens": _token_counts(folder, manifest),
        "manifest": manifest,
    }


def _read_manifest(folder: Path) -> Json:
    manifest = find_json(folder / "manifest.json", own=True)
    if manifest is None or "options" not in manifest or not has_counts(manifest):
        raise ConversionError(folder.name, "holds no finished result of a conversion")
    return manifest


def _count_lengths(folder: Path, kind: str) -> Facts | None:
    """How long the records are, in characters: powers of two."""
    if kind not in KINDS or not (folder / RECORDS_FOLDER).is_dir():
        return None
    lengths: list[np.ndarray] = []
    counted = 0
    for batch in read_batches(folder / RECORDS_FOLDER):
        lengths.append(KINDS[kind].lengths(batch, pc.utf8_length))
        counted += batch.num_rows
        if counted >= _MEASURED:
            break
    figures = measure_lengths(lambda: iter(lengths))
    bins = [{"from": part.low, "to": part.high, "count": part.count} for part in figures.bins]
    spread = {name: getattr(figures, name) for name in ("least", "median", "most")}
    return {"unit": "characters", "bins": bins, "counted": counted, **spread}


def _token_counts(folder: Path, manifest: Json) -> Facts | None:
    if not manifest.get("tokens"):
        return None
    data = _open_tokens(folder)
    trained = int(data.masks.tokens.sum(dtype=np.int64)) if data.masks else None
    counts = {name: manifest["tokens"][name] for name in ("tokens", "documents", "sequences")}
    return {**counts, "trained": trained, "tokenizer": str(data.tokenizer.get("file") or "")}


def view_records(folder: Path, start: int, count: int) -> Facts:
    """Return some records, by their number in the result."""
    total = _read_manifest(folder)["records"]["written"]
    redactor, shown = Redactor("redacted"), islice(_records_from(folder, start), min(count, _MOST))
    records: list[Facts] = []
    hidden = False
    for place, message in enumerate(shown):
        seen = redactor.value(message).json
        hidden |= seen != message
        records.append({"number": start + place, "nodes": view_record(seen)})
    return {"start": start, "total": total, "records": records, "hidden": hidden}


def _records_from(folder: Path, start: int) -> Iterator[Record]:
    """The records from a number on; whole Parquet files before it are not read."""
    for file in record_files(folder / RECORDS_FOLDER):
        if file.suffix == ".parquet" and (rows := pq.read_metadata(file).num_rows) <= start:
            start -= rows
            continue
        for record in read_records(file):
            if start:
                start -= 1
            else:
                yield record


def view_rejects(folder: Path, start: int, count: int) -> Facts:
    """Return some rejects: file, row, reason and what was found."""
    manifest, redactor = _read_manifest(folder), Redactor("redacted")
    lines = (line for file in _reject_files(folder) for line in _lines_of(file))
    shown = islice(lines, start, start + min(count, _MOST))
    total = sum(manifest["rejects"].values()) + manifest["records"]["filtered"]
    return {
        "start": start,
        "total": total,
        "rejects": [redactor.value(json.loads(line)).json for line in shown],
    }


def _reject_files(folder: Path) -> list[Path]:
    return sorted((folder / REJECTED_FOLDER).glob("part-*.jsonl"))


def _lines_of(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        yield from lines


def view_tokens(folder: Path, start: int, count: int, tokenizer: str | None) -> Facts:
    """Return the tokens of some documents, each with whether it is trained on.

    Raises ConversionError if the result has no tokens.
    """
    data = _open_tokens(folder)
    loaded, notes = open_tokenizer(data, tokenizer) if tokenizer else (None, [_NO_TOKENIZER])
    ends = min(start + min(count, _MOST), data.tokens.documents)
    documents = []
    for number in range(start, ends):
        ids = data.tokens.document(number)
        mask = data.masks.document(number) if data.masks else np.ones(len(ids))
        shown = [int(number) for number in ids[:_DOCUMENT_TOKENS]]
        texts = _token_texts(loaded, shown) if loaded else [f"{number} " for number in shown]
        tokens = [
            {"id": number, "text": text, "trained": bool(trained)}
            for number, text, trained in zip(shown, texts, mask, strict=False)
        ]
        documents.append({"number": number, "of": len(ids), "tokens": tokens})
    return {
        "start": start,
        "total": data.tokens.documents,
        "documents": documents,
        "tokenizer": Path(loaded.given).name if loaded else None,
        "notes": notes,
    }


def _token_texts(tokenizer: TokenizerFile, ids: list[int]) -> Iterator[str]:
    """The text of each token as it reads in its place; one of several tokens is that of the last.

    A token is decoded with the one before it, since some decoders drop a blank at the beginning.
    """
    begin = read = 0
    for end in range(1, len(ids) + 1):
        before = decode_ids(tokenizer, ids[begin:read])
        now = decode_ids(tokenizer, ids[begin:end])
        if now.endswith("\ufffd") and end < len(ids) and end - read < _CHARACTER_TOKENS:
            yield ""  # the beginning of a character
            continue
        yield now[len(before) :]
        begin, read = read, end


def _open_tokens(folder: Path) -> IndexedDataSet:
    indexes = sorted((folder / TOKENS).glob("*.idx"))
    prefixes = [
        index_file.with_suffix("") for index_file in indexes if _MASKS not in index_file.name
    ]
    if not prefixes:
        raise ConversionError(folder.name, "has no tokens", "convert it with a tokenizer")
    return open_data_set(prefixes[0])
