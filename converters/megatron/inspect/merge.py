"""Merge several data sets into one, as `add_index` of Megatron's own builder does it.

Nothing is decoded and nothing is held: memory does not grow with the data sets.
"""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

from ingot.converters.errors import ConversionError, OutputError, SourceError, redact_urls
from ingot.converters.json_yaml import load_json
from ingot.converters.megatron.indexed_dataset import (
    IndexCounts,
    IndexedDataSet,
    IndexedReader,
    dtype_code,
    index_bytes,
    index_paths,
    mask_prefix,
    number_stretches,
    open_data_set,
    write_index,
)
from ingot.converters.megatron.write.staging import copy_stretch
from ingot.converters.output.files import (
    MANIFEST,
    encode_json,
    hash_file,
    hold_lock,
    is_store_url,
    output_errors,
    sync_path,
    write_file,
)
from ingot.converters.output.object_store import fetch_result
from ingot.converters.rows import Json

_SAME_FACTS: Final = ("kind", "eod_id", "bos", "eos", "tokenizer", "columns", "chat_template")


def merge_data_sets(prefixes: Sequence[Path], out: Path, *, overwrite: bool = False) -> IndexCounts:
    """Put data sets together: `OUT.bin`, `OUT.idx`, `OUT.meta.json`, loss masks if all have them.

    Everything is staged under `.tmp` names; the `.idx` is renamed last.
    """
    _check_destination(prefixes, out, overwrite=overwrite)
    sets = [open_data_set(prefix) for prefix in prefixes]
    for one in sets:
        _check_fits(sets[0], one)
    if not any(one.tokens.tokens.size for one in sets):
        raise ConversionError(str(out), "no tokens: an empty data set cannot be loaded")
    paths = _data_set_files(out)
    staged = [path.with_name(path.name + ".tmp") for path in paths]
    with output_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            counts = _stage_result(sets, staged)
            _commit_result(paths, staged, masked=sets[0].masks is not None)
        finally:
            for path in staged:
                path.unlink(missing_ok=True)
    return counts


def _check_destination(prefixes: Sequence[Path], out: Path, *, overwrite: bool) -> None:
    if not prefixes:
        raise ConversionError("", "nothing to merge", "name the prefixes of data sets")
    idx_path = index_paths(out)[1]
    written = {path.resolve() for path in _data_set_files(out)}
    for prefix in prefixes:
        if written & {path.resolve() for path in _data_set_files(prefix)}:
            raise OutputError(str(out), f"would replace {prefix}", "name another prefix")
    if idx_path.exists() and not overwrite:
        raise OutputError(str(idx_path), "exists", "name another prefix or overwrite it")


def _data_set_files(prefix: Path) -> list[Path]:
    """The files of a data set: the masks' `.bin` and `.idx`, `.bin`, `.idx`, `.meta.json`."""
    return [*index_paths(mask_prefix(prefix))[:2], *index_paths(prefix)]


def local_data_set(location: Path | str) -> Path:
    """Return the prefix of a data set on this machine.

    A data set in a store, named by its URL, is copied to the user's cache, with its shards as one
    data set. Raises SourceError if there is none.
    """
    if not is_store_url(location):
        return Path(location)
    folder = fetch_result(str(location))
    manifest = load_json(folder / MANIFEST, own=True)
    if "data_set" not in manifest:
        hint = "name what a token build wrote"
        raise SourceError(redact_urls(str(location)), "holds no token data set", hint)
    prefix, meta = folder / "joined", encode_json(manifest["data_set"])
    meta_path = index_paths(prefix)[2]
    with output_errors(folder), hold_lock(folder / "joined.lock", wait_s=math.inf):
        if not meta_path.exists() or meta_path.read_bytes() != meta:
            merge_data_sets([folder / name for name in manifest["shards"]], prefix, overwrite=True)
            write_file(meta_path, meta)
        for file in manifest["files"]:  # one copy is enough
            (folder / file["path"]).unlink(missing_ok=True)
    return prefix


def _check_fits(first: IndexedDataSet, other: IndexedDataSet) -> None:
    prefix, reference = str(other.prefix), f"than {first.prefix}"
    ours, theirs = other.tokens.dtype.name, first.tokens.dtype.name
    if ours != theirs:
        raise ConversionError(prefix, f"ids of another type {reference}: {ours}, {theirs}")
    if (other.masks is None) != (first.masks is None):
        with_masks, without_masks = (first, other) if first.masks else (other, first)
        problem = f"no loss masks, and {with_masks.prefix} has some"
        raise ConversionError(str(without_masks.prefix), problem, "merge data sets of one kind")
    hashes = [one.tokenizer.get("sha256") for one in (first, other)]
    if None not in hashes and hashes[0] != hashes[1]:
        raise ConversionError(prefix, f"built with another tokenizer {reference}")
    if other.packed != first.packed:
        raise ConversionError(
            prefix, f"packed otherwise {reference}", "merge data sets of one kind"
        )
    idx_path = index_paths(other.prefix)[1]
    if idx_path.stat().st_size != index_bytes(other.tokens):
        problem = "more behind the documents (a multimodal data set has modes there)"
        raise ConversionError(str(idx_path), problem, "merge it with Megatron's own tool")


def _stage_result(sets: Sequence[IndexedDataSet], staged: Sequence[Path]) -> IndexCounts:
    """Write everything under the staged names: masks, then tokens, then facts."""
    mask_bin, mask_idx, bin_path, idx_path, meta_path = staged
    masks = [one.masks for one in sets if one.masks is not None]
    if masks:
        _stage_part(masks, [mask_prefix(one.prefix) for one in sets], mask_bin, mask_idx)
    prefixes = [one.prefix for one in sets]
    counts = _stage_part([one.tokens for one in sets], prefixes, bin_path, idx_path)
    meta_path.write_bytes(encode_json(_merged_meta(sets, counts), sort_keys=False))
    sync_path(meta_path)
    return counts


def _stage_part(
    readers: Sequence[IndexedReader], prefixes: Sequence[Path], bin_path: Path, idx_path: Path
) -> IndexCounts:
    _copy_files([index_paths(prefix)[0] for prefix in prefixes], bin_path)
    return write_index(
        idx_path,
        dtype_code(readers[0]),
        lambda: (stretch for one in readers for _, stretch in number_stretches(one.lengths)),
        lambda: (
            np.diff(stretch)
            for one in readers
            for _, stretch in number_stretches(one.document_indices, overlap=1)
        ),
    )


def _copy_files(sources: Iterable[Path], target: Path) -> None:
    with target.open("wb", buffering=0) as out:
        for source in sources:
            with source.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if copy_stretch(file.fileno(), out.fileno(), 0, size):
                    raise ConversionError(str(source), "became shorter while it was read")
        os.fsync(out.fileno())


def _merged_meta(sets: Sequence[IndexedDataSet], counts: IndexCounts) -> dict[str, Json]:
    """The facts of the result: what all the parts agree on, and where it is from."""
    metas = [one.meta for one in sets]
    same = _agreed_facts(metas, _SAME_FACTS)
    options = [meta.get("options") for meta in metas]
    agreed = [one for one in options if isinstance(one, dict)]
    if len(agreed) == len(metas):
        same["options"] = _agreed_facts(agreed, list(agreed[0]))
        if sets[0].packed:  # in packs of several sizes texts are still sequences
            same["options"]["pack"] = max(one["pack"] for one in agreed)
    return {
        "version": 1,
        "dtype": sets[0].tokens.dtype.name,
        **same,
        "counts": asdict(counts),
        "merged": [
            {
                "name": one.prefix.name,
                "idx_sha256": hash_file(index_paths(one.prefix)[1]),
                "counts": asdict(one.tokens.counts),
            }
            for one in sets
        ],
    }


def _agreed_facts(metas: Sequence[dict[str, Json]], keys: Iterable[str]) -> dict[str, Json]:
    first = metas[0]
    agreed = [key for key in keys if all(key in m and m[key] == first.get(key) for m in metas)]
    return {key: first[key] for key in agreed}


def _commit_result(paths: Sequence[Path], staged: Sequence[Path], *, masked: bool) -> None:
    """Give everything its name, the `.idx` last: without it there is no data set."""
    mask_bin, mask_idx, bin_path, idx_path, meta_path = paths
    renames = dict(zip(paths, staged, strict=True))
    idx_path.unlink(missing_ok=True)  # an old index must never stand beside new tokens
    for path in (mask_bin, mask_idx):
        if masked:
            renames[path].replace(path)
        else:
            path.unlink(missing_ok=True)
    for path in (bin_path, meta_path, idx_path):
        renames[path].replace(path)
    sync_path(idx_path.parent)
