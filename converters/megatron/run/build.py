"""Build a Megatron data set from Parquet texts or unified records: at a prefix, or in a store."""

from collections.abc import Sequence
from pathlib import Path

from ingot.converters.megatron.messages import Monitor, ignore_message, log_event
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.read.input_files import InputFile
from ingot.converters.megatron.run.data_set import TokenStats, find_done, make_data_set
from ingot.converters.megatron.run.recipe import SideFiles, prepare_build
from ingot.converters.megatron.write.staging import open_staging
from ingot.converters.output.files import is_store_url


def build(
    files: Sequence[InputFile],
    tokenizer: Path | str,
    prefix: Path | str,
    options: BuildOptions | None = None,
    work: WorkOptions | None = None,
    *,
    beside: SideFiles | None = None,
    monitor: Monitor = ignore_message,
) -> TokenStats:
    """Tokenize files into `PREFIX.bin`, `PREFIX.idx` and `PREFIX.meta.json`.

    Conversations also give `PREFIX.loss_mask.bin` and `.idx`. Rows that cannot be tokenized are
    listed in `PREFIX.rejects.jsonl`, times and counts by stage in `PREFIX.run.json`. The data set
    appears whole or not at all; what a build that was broken off had finished can be gone on with.

    Args:
        files: the inputs in order, see `scan`.
        tokenizer: see `load_tokenizer`.
        prefix: where to, without the endings; its folder is made. The URL of a folder in an object
            store gets shards, see `store_build`.
        options: what decides the bytes.
        work: how the work is done.
        beside: where the small files go; not for a store.
        monitor: hears how it goes, see `messages`.

    Raises:
        PartDone: this was a part of the build (`work.shard`).
        SourceError: no file can be read.
        ConversionError: the tokenizer or the options do not serve; no document has a token; with
            `fail_fast` the first row that is rejected.
        OutputError: another data set is there; what is unfinished differs; it cannot be written.
    """
    if is_store_url(prefix):
        from ingot.converters.megatron.run.store_build import build_in_store

        return build_in_store(files, tokenizer, str(prefix), options, work, monitor)
    prepared = prepare_build(files, tokenizer, Path(prefix), options, work, beside, monitor)
    with open_staging(
        prepared.prefix, prepared.work.tmp_dir, shared=prepared.part is not None
    ) as staging:
        if staging.beside:
            log_event(monitor, "warn", "writer", "tmp_dir_not_used", error=staging.beside)
        if prepared.part is None:
            staging.finish_commit()
        return find_done(prepared) or make_data_set(prepared, staging)
