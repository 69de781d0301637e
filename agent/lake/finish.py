"""Finish a run over a lake: duplicates across its data sets, the corpus, catalog and page."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ingot.agent.lake.lake_order import CORPUS, LakeOrder
from ingot.converters.errors import IngotError
from ingot.converters.lake import catalog, corpus, duplicates, page
from ingot.converters.lake.catalog import SetFacts, Split
from ingot.converters.lake.duplicates import find_or_recall
from ingot.converters.lake.record_hashes import ALL
from ingot.converters.output.files import output_errors, write_file
from ingot.converters.output.worker_pool import TaskFailure, Workers
from ingot.converters.records.schema import json_line
from ingot.converters.rows import Json

_DROPS: Final = "drops"
_REPEATS: Final = "repeats.json"
CATALOG: Final = "catalog.parquet"
PAGE: Final = "index.html"
LEFT_OUT: Final = "left_out.jsonl"

Tell = Callable[[str], None]


def finish_run(
    order: LakeOrder,
    sets: Sequence[SetFacts],
    told: dict[str, Json],
    workers: Workers,
    tell: Tell,
) -> list[SetFacts]:
    """Do what needs all data sets to be done, and return their facts."""
    tell("repeats")
    found = _find_duplicates(order, sets)
    sets = [_with_repeats(one, found) for one in sets]
    if order.has_corpus:
        tell("corpus")
        sets = _write_corpus(order, sets, found, workers)
    elif (order.out / CORPUS).is_dir():
        corpus.sweep_corpus(order.out / CORPUS, ())
    tell("catalog")
    catalog.write_catalog(sets, order.out / CATALOG)
    shown = page.render_lake_page(sets, title=order.out.name, told=told)
    with output_errors(order.out):
        write_file(order.out / PAGE, shown)
    return sets


def write_left_out(order: LakeOrder, left_out: Sequence[tuple[str, str]]) -> None:
    """Write every file that is not read, with the reason."""
    lines = [json_line({"name": name, "why": why}) for name, why in left_out]
    with output_errors(order.out):
        write_file(order.out / LEFT_OUT, b"".join(lines))


def _find_duplicates(order: LakeOrder, sets: Sequence[SetFacts]) -> duplicates.Duplicates:
    files = {one.name: order.hashes(one.name) for one in sets if one.status == "converted"}
    drops = order.state.folder / _DROPS if order.dedup else None
    if drops is None:
        shutil.rmtree(order.state.folder / _DROPS, ignore_errors=True)
    return find_or_recall(files, order.state.folder / _REPEATS, drops)


def _with_repeats(one: SetFacts, found: duplicates.Duplicates) -> SetFacts:
    told = found.sets.get(one.name)
    if told is None:
        return replace(one, across=0, overlaps={}, splits=())
    return replace(one, across=told.across, overlaps=dict(told.overlaps), splits=())


# --- the corpus


@dataclass(frozen=True, kw_only=True)
class _Part:
    name: str
    result: Path
    folder: Path
    options: corpus.CorpusOptions
    drops: Path | None
    hashed: Path


def _write_corpus(
    order: LakeOrder,
    sets: Sequence[SetFacts],
    found: duplicates.Duplicates,
    workers: Workers,
) -> list[SetFacts]:
    """Write the corpus of all results; a data set that fails is left out of it."""
    folder = order.out / CORPUS
    options = corpus.CorpusOptions(splits=order.splits or ALL, tokenizer=order.tokenizer)
    parts = [
        _Part(
            name=one.name,
            result=order.result(one.name),
            folder=folder,
            options=options,
            drops=found.drops.get(one.name),
            hashed=order.hashes(one.name),
        )
        for one in sets
        if one.status == "converted"
    ]
    written: dict[str, tuple[Split, ...] | str] = {}
    for part, splits in workers.spread(_write_part, parts):
        written[part.name] = splits.why if isinstance(splits, TaskFailure) else splits
    kept = [
        (split.name, name)
        for name, splits in written.items()
        for split in (() if isinstance(splits, str) else splits)
    ]
    corpus.sweep_corpus(folder, kept)
    return [_with_splits(one, written.get(one.name, ())) for one in sets]


def _write_part(part: _Part) -> tuple[Split, ...] | str:
    """Return what went into which split; a text if it failed."""
    try:
        return corpus.write_corpus(
            part.result,
            part.folder,
            part.name,
            part.options,
            drops=part.drops,
            hashed=part.hashed if part.drops else None,
        )
    except IngotError as error:
        return str(error)


def _with_splits(one: SetFacts, splits: tuple[Split, ...] | str) -> SetFacts:
    if isinstance(splits, str):
        return replace(one, status="failed", why=f"its part of the corpus: {splits}")
    tokens = [split.tokens for split in splits if split.tokens is not None]
    return replace(one, splits=splits, tokens=sum(tokens) if tokens else one.tokens)
