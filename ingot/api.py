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
    """Propose a mapping by rules: offline, deterministic, from a sample of 200 rows."""
    from ingot.agent.proposing.rules.mapper import propose as propose_by_rules

    opened = open_source(source)
    return propose_by_rules(opened, draw_sample(opened), Request(mode=mode, language=language))


def check(mapping: MappingFile, source: str) -> CheckReport:
    """Run a mapping on a sample: coverage per path, and every problem at once."""
    bound, opened, sample = _bind(mapping, source)
    return check_mapping(bound, sample, source_name=opened.name)


def convert(
    mapping: MappingFile, source: str, out: str | Path, options: ConvertOptions | None = None
) -> Result:
    """Convert a source with a mapping into a folder that appears whole or not at all."""
    bound, opened, _ = _bind(mapping, source)
    return convert_source(opened, bound, out, options)


def load(out: str | Path) -> Iterator[Record]:
    """Stream the records of a finished conversion as dicts, in the order of the rows."""
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
