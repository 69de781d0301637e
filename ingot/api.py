"""ingot from Python: propose a mapping, check it, convert with it, load what was written.

Example:
    ```python
    proposal = ingot.propose("exam.jsonl.gz")
    report = ingot.check("exam.jsonl.gz", proposal)
    result = ingot.convert("exam.jsonl.gz", proposal, "out")
    dataset = ingot.load(result)
    ```

A source is a location, or a table in memory (see `ingot.frames`). A mapping is a document, its file
or a proposal. Nothing is printed; errors are `ingot.IngotError`, with fields.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from html import escape
from json import dumps
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ingot.agent.context import Context, open_model, reading_of
from ingot.agent.judging.policy import review_by_gates
from ingot.agent.judging.trial import Trial, try_out
from ingot.agent.privacy import SafeProblem
from ingot.agent.proposing.proposal import Evidence, confidence_text, doubts_text
from ingot.agent.reporting.preview import Preview, preview
from ingot.agent.reporting.proposal_folder import proposed_mapping
from ingot.agent.reporting.report import reason_text
from ingot.agent.session import check_serves, convert_mapping, run_once, try_mapping
from ingot.agent.state import Gate, Order, State
from ingot.converters.convert.job import Result
from ingot.converters.convert.options import ConvertOptions
from ingot.converters.convert.result import Manifest
from ingot.converters.errors import (
    ConversionError,
    CountsReviewNeeded,
    ModelError,
    OutputError,
    ReviewNeeded,
)
from ingot.converters.json_yaml import find_json
from ingot.converters.mapping.bind import load_mapping, read_tree
from ingot.converters.mapping.check import CheckReport
from ingot.converters.mapping.documents.writer import to_document
from ingot.converters.mapping.language import Mapping as MappingTree
from ingot.converters.output.files import is_store_url
from ingot.converters.output.store_commit import find_result
from ingot.converters.progress import Watch
from ingot.converters.records.readers import record_files
from ingot.converters.records.schema import KINDS, Record, to_records
from ingot.converters.rows import Json, MappingDocument, Reject
from ingot.results import result_folder

if TYPE_CHECKING:
    from ingot.agent.proposing.llm.mapper import ModelAccess
    from ingot.agent.review.review_document import ReviewDocument
    from ingot.converters.megatron import BuildOptions, TokenStats, WorkOptions
    from ingot.converters.megatron.messages import Monitor

# `object`: frames of libraries that are not imported here.
SourceLike: TypeAlias = str | os.PathLike[str] | object
Rejects: TypeAlias = list[Reject] | Callable[[Reject], object]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposed mapping and what speaks for it, as `ingot run --dry-run` shows it.

    Attributes:
        decision: `pt`, `sft`, `irrelevant` or `unmappable`; None if no answer could be run.
        mapping: the document, None if there is none.
        confidence: 0..1.
        reason: one sentence.
        evidence: why each part of the mapping is as it is, with the second best choice.
        alternatives: other mappings that pass on the sample, as `ingot chat` lists them.
        gates: what must hold before a conversion, with figures; `state` is `pass`, `warn`, `fail`
            or `person`.
        problems: what is wrong with the mapping on the sample.
        passes: whether `ingot run --yes` would convert with it.
        mapper: who proposed it: `rules` or `llm`.
        preview: the mapping in words, and rows beside records, redacted; None without a mapping.
    """

    decision: str | None
    mapping: MappingDocument | None
    confidence: float
    reason: str
    evidence: tuple[Evidence, ...]
    alternatives: tuple[MappingDocument, ...]
    gates: tuple[Gate, ...]
    problems: tuple[SafeProblem, ...]
    passes: bool
    mapper: str | None
    preview: Preview | None

    def _repr_html_(self) -> str:
        """The proposal as a notebook shows it; every text is escaped."""
        sure = confidence_text(self.confidence)
        summary = f"{self.decision} by {self.mapper}, confidence {sure}"
        found = [f"<p><b>{escape(summary)}</b>: {escape(self.reason)}</p>"]
        if doubts := doubts_text(self.evidence):
            found.append(f"<p>doubts: {escape(doubts)}</p>")
        if self.preview:
            found.append(_html_table(("target", "from"), self.preview.lines))
        gates = [(one.name, one.state, one.figure, one.limit) for one in self.gates]
        found.append(_html_table(("gate", "state", "figure", "limit"), gates))
        if self.preview:
            shown = [[_json_text(row.json), _json_text(made.json)] for row, made in self.examples]
            found.append(_html_table(("row", "record"), shown))
        return "".join(found)

    @property
    def examples(self) -> tuple[tuple[Any, Any], ...]:
        """Return rows beside the first record of each, redacted."""
        return self.preview.examples if self.preview else ()


MappingLike: TypeAlias = Mapping[str, Json] | str | os.PathLike[str] | Proposal


def propose(
    source: SourceLike,
    *,
    mode: Literal["auto", "pt", "sft"] = "auto",
    model: str | None = None,
    language: str | None = None,
    source_name: str | None = None,
    share_values: Literal["none", "redacted", "raw"] = "redacted",
    llm_max_tokens: int | None = None,
) -> Proposal:
    """Propose a mapping from a sample of 200 rows.

    Args:
        source: a location or a table in memory.
        mode: kind of the records: texts (`pt`), conversations (`sft`), or detected.
        model: a model of an OpenAI-compatible endpoint, which is asked if the rules are unsure;
            key, URL and preset are read from the environment. None: rules alone, offline.
        language: value of `meta.language` where it is known: ISO 639-1 code, or `mix`.
        source_name: value of `meta.source`, else the name of the source.
        share_values: what a model may see of the values.
        llm_max_tokens: most tokens that the model may take, in and out; None: no limit.

    Raises:
        SourceError: the source cannot be read.
        ModelError: no endpoint is configured, or it failed.
    """
    with _open(source) as (context, location):
        context.asking = _access(model, llm_max_tokens) if model else None
        order = Order(
            source=location,
            mode=mode,
            mapper="auto" if model else "rules",
            language=language,
            source_name=source_name,
            share_values=share_values,
            dry_run=True,
        )
        return _proposal_of(run_once(order, context), context)


def _proposal_of(state: State, context: Context) -> Proposal:
    from ingot.agent.chat.alternatives import find_alternatives

    outcome = state["outcome"]
    others = find_alternatives(state, context) if outcome.check else ()
    mapping = proposed_mapping(state)
    return Proposal(
        decision=outcome.decision,
        mapping=to_document(mapping) if mapping else None,
        confidence=outcome.confidence or 0.0,
        reason=reason_text(outcome, outcome.check) or outcome.why,
        evidence=outcome.evidence,
        alternatives=tuple(to_document(one.mapping) for one in others),
        gates=outcome.gates,
        problems=outcome.problems,
        passes=bool(outcome.check) and review_by_gates(state).decision == "approve",
        mapper=outcome.mapper,
        preview=preview(state, context.readings) if outcome.check else None,
    )


def check(
    source: SourceLike,
    mapping: MappingLike,
    *,
    language: str | None = None,
    source_name: str | None = None,
) -> CheckReport:
    """Run a mapping on a sample: coverage per path, and every problem at once.

    Raises:
        SourceError: the source cannot be read.
        MappingError: the mapping is wrong by itself.
    """
    with _open(source) as (context, location):
        order = _order(location, mapping, language=language, source_name=source_name)
        return _try(context, order).report


def convert(
    source: SourceLike,
    mapping: MappingLike,
    out: str | os.PathLike[str],
    options: ConvertOptions | None = None,
    *,
    allow_drift: bool = False,
    approved: Mapping[str, int] | None = None,
    progress: Watch | None = None,
) -> Result:
    """Convert a source into a folder that appears whole or not at all, as `ingot convert` does.

    A proposal is converted if it passes without a person. To approve one that does not, pass its
    `mapping`.

    Args:
        source: a location or a table in memory.
        mapping: a document, its file or a proposal.
        out: a folder, or the URL of an object store.
        options: format of the records, workers and so on.
        allow_drift: convert although the data has changed since the mapping was made.
        approved: the `counts` of a `CountsReviewNeeded`: a person has approved them.
        progress: called with the rows and records so far.

    Raises:
        SourceError: the source cannot be read.
        MappingError: the mapping is wrong by itself.
        ConversionError: the mapping finds nothing, every row was rejected, or the data has changed
            (`DriftError`).
        ReviewNeeded: a person has to look at the proposal, or at what gates on all rows count
            (`CountsReviewNeeded`).
        OutputError: the destination is taken or cannot be written.
    """
    _check_approved(mapping)
    chosen = options or ConvertOptions()
    settings = {one.name: getattr(chosen, one.name) for one in fields(ConvertOptions)}
    with _open(source) as (context, location):
        context.progress = progress
        order = _order(location, mapping, out=os.fspath(out), allow_drift=allow_drift, **settings)
        return _result(convert_mapping(order, context, dict(approved or {})))


def _result(state: State) -> Result:
    """What a conversion wrote, with its whole manifest. Raises CountsReviewNeeded."""
    if halted := state.get("halted"):
        raise CountsReviewNeeded(state["order"].source, halted.why, "", halted.counts)
    done, place = state["result"], state["order"].out or ""
    out = place if is_store_url(place) else Path(place)
    found = find_result(out)
    if done is None or found is None:
        raise OutputError(place, "was removed meanwhile", "run again")
    return Result(
        out=out,
        manifest=cast("Manifest", found.manifest),
        run=found.run,
        already_done=done.already_done,
        notes=done.notes,
        first_rejects=done.first_rejects,
    )


def records(
    source: SourceLike,
    mapping: MappingLike,
    *,
    rejects: Rejects,
    language: str | None = None,
    source_name: str | None = None,
    allow_drift: bool = False,
) -> Iterator[Record]:
    """Yield the records of a source as dicts, in the order of the rows; nothing is written.

    Args:
        source: a location or a table in memory.
        mapping: a document, its file or a proposal.
        rejects: a list that gets each row (or record of a row) that is rejected, with the reason,
            or a function that is called with it. Rows that the mapping filters are no rejects.
        language: value of `meta.language` if the mapping does not set it.
        source_name: value of `meta.source` if the mapping does not set it.
        allow_drift: convert although the data has changed since the mapping was made.

    Raises: as `convert`, at the first record; but no error if every row is rejected.
    """
    from ingot.converters.mapping.columns.executor import MappingExecutor, UnifiedTable
    from ingot.converters.mapping.rows.group import group_rows
    from ingot.converters.sources.facts import unchanged_files

    _check_approved(mapping)
    take = rejects.append if isinstance(rejects, list) else rejects
    named = {"language": language, "source_name": source_name, "allow_drift": allow_drift}
    with _open(source) as (context, location):
        order = _order(location, mapping, out="", **named)
        check_serves(try_mapping(order, context).state)
        tried = _try(context, order)
        name = source_name or tried.source.name
        executor = MappingExecutor(tried.mapping, source_name=name, language=language)
        batches = tried.source.batches()
        if tried.mapping.group:
            batches = group_rows(batches, tried.mapping.group)
        with unchanged_files(tried.source.files):
            for batch in batches:
                for part in executor.parts(batch):
                    for one in sorted(part.rejects, key=attrgetter("row")):
                        take(one)
                    if isinstance(part, UnifiedTable):
                        yield from to_records(part.table)
                    else:
                        yield from map(KINDS[executor.kind].ordered, part.records)


def tokens(
    records: Result | str | os.PathLike[str],
    tokenizer: str | os.PathLike[str],
    prefix: str | os.PathLike[str],
    options: "BuildOptions | None" = None,
    work: "WorkOptions | None" = None,
    *,
    pattern: str = "*.parquet",
    progress: "Monitor | None" = None,
) -> "TokenStats":
    """Build a Megatron data set (`PREFIX.bin`, `PREFIX.idx`), as `ingot tokens build` does.

    Args:
        records: a result or its folder, or another folder or file with texts or records.
        tokenizer: `tokenizer.json`, `.model`, a folder of one, or `hf://REPO`.
        prefix: where to, without the endings.
        options: what decides the bytes.
        work: how the work is done.
        pattern: names of the files in a folder that is no result.
        progress: called with what happens.

    Raises: see `ingot.converters.megatron.build`.
    """
    from ingot.converters import megatron
    from ingot.converters.megatron.messages import ignore_message

    place = Path(records.out if isinstance(records, Result) else records)
    if find_json(place / "manifest.json") if place.is_dir() else None:
        folder, _ = result_folder(place)
        files = megatron.stamp_files(record_files(folder / "records"))
    else:
        files = megatron.scan(place, pattern)
    monitor = progress or ignore_message
    where, to = os.fspath(tokenizer), os.fspath(prefix)
    return megatron.build(files, where, to, options, work, monitor=monitor)


def review(
    old: MappingLike,
    new: MappingLike,
    *,
    source: str | os.PathLike[str] | None = None,
    allow_breaking: bool = False,
) -> "ReviewDocument":
    """Review a changed mapping as `ingot review OLD NEW` does; `["verdict"]` is the result.

    Args:
        old: a mapping file, with the pinned sample beside it, or a document.
        new: the same for the changed mapping.
        source: data to try both on, instead of the pinned sample.
        allow_breaking: only warn about breaking changes and lost records.

    Returns:
        The document of schemas/review.schema.json; the verdict is `pass`, `warn` or `block`.
    """
    from ingot.agent.review.git_repository import ReviewOptions
    from ingot.agent.review.mapping_review import review_files
    from ingot.agent.review.revisions import mapping_files

    place = None if source is None else os.fspath(source)
    wish = ReviewOptions(source=place, allow_breaking=allow_breaking)
    first, second = (
        Path(one) if isinstance(one, str | os.PathLike) else _load(one) for one in (old, new)
    )
    with mapping_files(first, second) as (first, second):
        return review_files(first, second, wish)


@contextmanager
def _open(source: SourceLike) -> Iterator[tuple[Context, str]]:
    """The working set of a call, and how the source is named in it."""
    if isinstance(source, str | os.PathLike):
        yield Context(), os.fspath(source)
        return
    from ingot.frames import open_frame

    with open_frame(source) as opened:
        yield Context(readings=reading_of(opened)), opened.location


def _access(model: str, tokens: int | None) -> "ModelAccess":
    from ingot.agent.model.budget import Limits, list_price
    from ingot.agent.model.endpoint import configured_endpoint
    from ingot.agent.proposing.llm.mapper import AskSettings

    endpoint = configured_endpoint(model, None)
    if endpoint is None:
        hint = "set OPENAI_API_KEY, OPENAI_BASE_URL or INGOT_PRESET"
        raise ModelError(model, "no endpoint is configured", hint)
    limits = Limits(tokens=tokens)
    return open_model(AskSettings(endpoint=endpoint, run=limits, price=list_price(model)))


def _order(location: str, mapping: MappingLike, **settings: Any) -> Order:  # noqa: ANN401
    file = os.fspath(mapping) if isinstance(mapping, str | os.PathLike) else None
    tree = _load(mapping)
    return Order(source=location, mapper="file", mapping=tree, mapping_file=file, **settings)


def _load(mapping: MappingLike) -> MappingTree:
    if isinstance(mapping, Proposal):
        if mapping.mapping is None:
            raise ConversionError("proposal", "has no mapping", mapping.reason)
        return read_tree(mapping.mapping)
    if isinstance(mapping, str | os.PathLike):
        return load_mapping(Path(mapping))
    return read_tree(dict(mapping))


def _check_approved(mapping: MappingLike) -> None:
    if isinstance(mapping, Proposal) and mapping.mapping is not None and not mapping.passes:
        open_gates = [one for one in mapping.gates if one.state in ("person", "fail")]
        said = [f"{one.name}: {one.detail or one.figure}" for one in open_gates]
        problem = f"needs a person: {'; '.join(said)}"
        raise ReviewNeeded("proposal", problem, "look at it; to approve it, pass its mapping")


def _try(context: Context, order: Order) -> Trial:
    return try_out(
        context.locate(order), order, order.mapping, where=order.mapping_file or "mapping"
    )


def _json_text(value: Json) -> str:
    return dumps(value, ensure_ascii=False, indent=1)


def _html_table(names: tuple[str, ...], rows: Any) -> str:  # noqa: ANN401 - rows of texts
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    cell = '<td style="text-align:left;white-space:pre-wrap;vertical-align:top">{}</td>'
    body = ("".join(cell.format(escape(str(text))) for text in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{one}</tr>' for one in body)}</table>"
