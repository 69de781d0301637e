"""A finished result as a data set of the Hugging Face Hub, with a card made of its manifest."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ingot.agent.review.markdown_escaping import code_span, escape_words, markdown_table
from ingot.converters.convert.job import Result
from ingot.converters.errors import (
    OutputError,
    UnreachableStoreError,
    count_text,
    error_text,
    is_transient,
    redact_urls,
    require_package,
)
from ingot.converters.json_yaml import dump_yaml, load_json
from ingot.converters.records import read_batches
from ingot.converters.records.readers import record_files
from ingot.converters.records.schema import KINDS, RecordKind
from ingot.converters.rows import Json
from ingot.results import result_folder

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_RECORDS: Final = "records"
_CARD: Final = "README.md"
_INPUTS: Final = 50  # input files that a card lists
_SIZES: Final = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M")
_DTYPES: Final = {"bool": "bool", "double": "float64"}  # where Arrow says it otherwise
_WORDS: Final = {
    "pt": "Texts for pretraining",
    "sft": "Conversations for supervised fine-tuning",
}


def push_to_hub(
    result: Result | str | os.PathLike[str],
    repo_id: str,
    *,
    license: str | None = None,
    private: bool = True,
    progress: bool = False,
) -> str:
    """Push the records and the mapping of a finished result to the Hub, with a data set card.

    One commit: records of a former push are replaced, and so is its card. Rejected rows, the
    report and times and places of the run are not pushed. The token is that of `huggingface_hub`:
    HF_TOKEN, or what `hf auth login` stored; `HF_ENDPOINT` names another server.

    Args:
        result: a result or its folder on this machine.
        repo_id: `USER/NAME`; the repository is made if it is not there.
        license: what the Hub calls the licence of the data, such as `cc-by-4.0`; None: not stated.
        private: whether a new repository is private.
        progress: show the bars of the library.

    Returns:
        The URL of the commit.

    Raises:
        ConversionError: it is no finished result, or holds no records.
        OutputError: the Hub refuses it; as UnreachableStoreError, it cannot be reached.
        SourceError: `huggingface_hub` is not installed.
    """
    require_package(repo_id, "a push to the Hub", "huggingface-hub", "hf")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import LocalTokenNotFoundError
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    folder, _ = result_folder(result)
    card = dataset_card(folder, license=license)
    was_quiet = are_progress_bars_disabled()
    if not progress:
        disable_progress_bars()
    try:
        return _commit_folder(HfApi(), folder, repo_id, card, private=private)
    except Exception as error:  # each version of the library has errors of another client
        hint = "check the name, HF_TOKEN (write access) and HF_ENDPOINT"
        refused = isinstance(error, LocalTokenNotFoundError) or not is_transient(error)
        where, said = f"hf://datasets/{repo_id}", redact_urls(error_text(error))
        raise (OutputError if refused else UnreachableStoreError)(where, said, hint) from error
    finally:
        if not was_quiet:
            enable_progress_bars()


def _commit_folder(api: "HfApi", folder: Path, repo_id: str, card: bytes, *, private: bool) -> str:
    from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete

    files = {f"{_RECORDS}/{file.name}": file for file in record_files(folder / _RECORDS)}
    api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
    there = api.list_repo_files(repo_id, repo_type="dataset")
    old = [name for name in there if name.startswith(f"{_RECORDS}/") and name not in files]
    files["mapping.json"] = folder / "mapping.json"
    operations: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete] = [
        *(CommitOperationDelete(path_in_repo=name) for name in old),
        *(
            CommitOperationAdd(path_in_repo=name, path_or_fileobj=one)
            for name, one in files.items()
        ),
        CommitOperationAdd(path_in_repo=_CARD, path_or_fileobj=card),
    ]
    message = "Push records converted by ingot"
    done = api.create_commit(repo_id, operations, commit_message=message, repo_type="dataset")
    return str(done.commit_url)


def dataset_card(result: Result | str | os.PathLike[str], *, license: str | None = None) -> bytes:
    """Return the card of a finished result: YAML for the Hub, then facts of the manifest."""
    folder, kind = result_folder(result)
    manifest = load_json(folder / "manifest.json", own=True)
    suffix = record_files(folder / _RECORDS)[0].suffix
    head: dict[str, Json] = {
        "license": license,
        "language": _languages(folder),
        "size_categories": [_size(manifest["records"]["written"])],
        "configs": [{"config_name": "default", "data_files": f"{_RECORDS}/*{suffix}"}],
        "dataset_info": {"features": list(map(_feature, KINDS[kind].schema))},
    }
    stated = {name: one for name, one in head.items() if one}
    body = "\n\n".join(_card_parts(manifest, kind))
    return b"---\n" + dump_yaml(stated) + f"---\n\n{body}\n".encode()


def _languages(folder: Path) -> list[Json]:
    """The languages of the records, sorted; `mix` is none."""
    found: set[str | None] = set()
    for batch in read_batches(folder / _RECORDS):
        found.update(pc.unique(pc.struct_field(batch.column("meta"), "language")).to_pylist())
    return sorted(one for one in found if one not in (None, "mix"))


def _size(records: int) -> str:
    """The name that the Hub has for a number of records."""
    steps = len(str(records)) - 3
    return _SIZES[max(0, steps)] if steps < len(_SIZES) else "n>100M"


def _feature(field: pa.Field) -> dict[str, Json]:
    """A column as `dataset_info` of a card states it."""
    kind = field.type
    if pa.types.is_struct(kind):
        return {"name": field.name, "struct": list(map(_feature, kind))}
    if pa.types.is_list(kind):
        return {"name": field.name, "list": list(map(_feature, kind.value_type))}
    return {"name": field.name, "dtype": _DTYPES.get(str(kind), str(kind))}


def _card_parts(manifest: dict[str, Any], kind: RecordKind) -> Iterator[str]:
    yield f"# {escape_words(manifest['options']['source'])}"
    version = manifest["versions"]["ingot"]
    yield f"{_WORDS[kind]}, converted by ingot {version} with the mapping in `mapping.json`."
    counts = [(name, f"{number:,}") for name, number in manifest["rows"].items()]
    yield "## Rows\n\n" + markdown_table(("rows of the source", "number"), counts)
    yield f"{count_text(manifest['records']['written'], 'record')} written."
    if manifest["rejects"]:
        reasons = [(code_span(name), f"{number:,}") for name, number in manifest["rejects"].items()]
        yield "## Rejected\n\n" + markdown_table(("reason", "number"), reasons)
    inputs = manifest["inputs"]
    files = [
        (code_span(one["name"]), f"{one['bytes']:,}", code_span(one["sha256"] or ""))
        for one in inputs[:_INPUTS]
    ]
    yield "## Source\n\n" + markdown_table(("file", "bytes", "SHA-256"), files)
    if len(inputs) > _INPUTS:
        yield f"And {count_text(len(inputs) - _INPUTS, 'file')} more."
    facts = [("SHA-256 of the mapping", code_span(manifest["mapping_sha256"]))]
    if "revision" in manifest:
        facts.append(("revision of the source", code_span(manifest["revision"])))
    yield "## Conversion\n\n" + markdown_table(("fact", "value"), facts)
