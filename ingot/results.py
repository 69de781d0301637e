"""Finished results: their folder, and their records as a data set of the library `datasets`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from ingot.converters.convert.job import Result
from ingot.converters.errors import ConversionError, require_package
from ingot.converters.json_yaml import find_json
from ingot.converters.output.files import is_store_url
from ingot.converters.records.readers import record_files
from ingot.converters.records.schema import KINDS, RecordKind

if TYPE_CHECKING:
    import datasets


@overload
def load(
    result: Result | str | os.PathLike[str],
    *,
    streaming: Literal[False] = False,
    progress: bool = False,
) -> "datasets.Dataset": ...
@overload
def load(
    result: Result | str | os.PathLike[str], *, streaming: Literal[True], progress: bool = False
) -> "datasets.IterableDataset": ...
def load(
    result: Result | str | os.PathLike[str], *, streaming: bool = False, progress: bool = False
) -> "datasets.Dataset | datasets.IterableDataset":
    """Load the records of a finished conversion with the library `datasets` (extra `hf`).

    Args:
        result: a result or its folder on this machine.
        streaming: read the files while they are iterated over, without a copy in the cache.
        progress: show the bars of the library.

    Returns:
        Records in the order of the rows, with the features of their kind, whatever the format.

    Raises:
        ConversionError: it is no finished result, or holds no records.
        SourceError: `datasets` is not installed.
    """
    require_package("ingot.load", "a Dataset", "datasets", "hf")
    import datasets

    folder, kind = result_folder(result)
    files = record_files(folder / "records")
    reader = "parquet" if files[0].suffix == ".parquet" else "json"
    was_quiet = datasets.are_progress_bars_disabled()
    if not progress:
        datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(
            reader,
            data_files=[*map(str, files)],
            features=datasets.Features.from_arrow_schema(KINDS[kind].schema),
            split="train",
            streaming=streaming,
        )
    finally:
        if not was_quiet:
            datasets.enable_progress_bars()


def result_folder(result: Result | str | os.PathLike[str]) -> tuple[Path, RecordKind]:
    """Return the folder of a finished result on this machine, and the kind of its records.

    Raises ConversionError if there are none.
    """
    place = os.fspath(result.out if isinstance(result, Result) else result)
    if is_store_url(place):
        raise ConversionError(place, "lies in an object store", "copy it to this machine first")
    manifest = find_json(Path(place) / "manifest.json", own=True)
    if manifest is None or "decision" not in manifest:
        raise ConversionError(place, "holds no finished result", "name a folder of ingot.convert")
    if manifest["decision"] not in KINDS or not manifest["records"]["written"]:
        raise ConversionError(place, f"holds no records: {manifest.get('reason')}")
    return Path(place), manifest["decision"]
