"""ingot from Python: propose a mapping, check it, convert with it, load what was written.

Example:
    ```python
    proposal = ingot.propose("exam.jsonl.gz")
    report = ingot.check(proposal.mapping, "exam.jsonl.gz")
    result = ingot.convert(proposal.mapping, "exam.jsonl.gz", "out")
    records = list(ingot.load("out"))
    ```
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ingot.agent.proposing.proposal import Proposal, Request
from ingot.converters.convert.job import Result
from ingot.converters.convert.job import convert as convert_source
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.mapping.bind import bind, load_mapping
from ingot.converters.mapping.check import CheckReport, check_mapping
from ingot.converters.mapping.language import Mapping as BoundMapping
from ingot.converters.records import read_records
from ingot.converters.records.schema import Record
from ingot.converters.rows import Json
from ingot.converters.sources import Source, open_source
from ingot.converters.sources.sample import Sample, draw_sample

MappingFile = Mapping[str, Json] | str | Path


def propose(source: str, *, mode: str = "auto", language: str | None = None) -> Proposal:
    """Propose a mapping by rules: offline, deterministic, from a sample of 200 rows.

    Args:
        source: file, folder, glob, archive or fsspec URL.
        mode: `pt`, `sft`, or `auto` to let the rules decide.
        language: ISO 639-1 code of all records, or `mix`; None = detect it.

    Returns:
        The decision, the mapping document (None where there is none), the confidence (0 to 1) and
        the evidence. A person should look at it before anything is converted.

    Raises:
        SourceError: the source does not exist or cannot be read.
    """
    from ingot.agent.proposing.rules.mapper import propose as propose_by_rules

    opened = open_source(source)
    return propose_by_rules(opened, draw_sample(opened), Request(mode=mode, language=language))


def check(mapping: MappingFile, source: str) -> CheckReport:
    """Run a mapping on a sample: coverage per path, and every problem at once.

    Args:
        mapping: a mapping file or its content.
        source: as for `propose`.

    Raises:
        MappingError: the mapping is not valid; the error lists every problem with its place.
        SourceError: the source does not exist or cannot be read.
    """
    bound, opened, sample = _bind(mapping, source)
    return check_mapping(bound, sample, source_name=opened.name)


def convert(
    mapping: MappingFile, source: str, out: str | Path, options: ConvertOptions | None = None
) -> Result:
    """Convert a source with a mapping into a folder that appears whole or not at all.

    Args:
        mapping: a mapping file or its content.
        source: as for `propose`.
        out: the folder to write.
        options: format, limit, tokenizer, worker processes.

    Returns:
        The manifest and what differs between equal runs; `already_done` where the folder held this
        very result before.

    Raises:
        MappingError: the mapping is not valid.
        SourceError: the source does not exist or cannot be read to its end.
        ConversionError: no row gave a record; the message names the most frequent reasons.
        OutputError: the folder holds something else or cannot be written.
    """
    bound, opened, _ = _bind(mapping, source)
    return convert_source(opened, bound, Path(out), options)


def load(out: str | Path) -> Iterator[Record]:
    """Stream the records of a finished conversion as dicts, in the order of the rows.

    Raises:
        ConversionError: a file is missing, cut, or holds no unified records.
    """
    return read_records(Path(out) / "records")


def _bind(mapping: MappingFile, source: str) -> tuple[BoundMapping, Source, Sample]:
    """A mapping bound on a sample of a source that is read as the mapping states it."""
    if isinstance(mapping, str | Path):
        document, where = load_mapping(Path(mapping)), str(mapping)
    else:
        document, where = dict(mapping), "mapping"
    spec = bind(document, where=where).source
    opened = open_source(source, spec)
    sample = draw_sample(opened)
    bound = bind(document, [row.value for row in sample.rows], where=where)
    return replace(bound, source=spec), opened, sample
