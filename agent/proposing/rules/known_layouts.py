"""Recognize exports of well-known tools at sight, and propose the mapping that is kept for them.

`schemas/known` holds a layout a file (`known.schema.json`). A layout only proposes: its mapping is
run on the sample like any other, and where it does not fit, the general rules decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files

import orjson

from ingot.agent.proposing.columns import values_at
from ingot.agent.proposing.proposal import Evidence, Proposal, Request
from ingot.agent.proposing.rules.metadata import mapping_language
from ingot.converters.errors import MappingError, SourceError
from ingot.converters.json_yaml import decode
from ingot.converters.mapping.bind import bind, read_tree
from ingot.converters.mapping.check import check_mapping, sample_batches, unresolved_problems
from ingot.converters.mapping.documents.writer import part_document, plain_document
from ingot.converters.mapping.language import Mapping
from ingot.converters.mapping.rows.conditions import same_json
from ingot.converters.mapping.rows.values import row_nodes
from ingot.converters.paths import Node
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources import Source, SourceSpec
from ingot.converters.sources.profile import pick_evenly
from ingot.converters.sources.sample import Sample, draw_sample

CONFIDENCE = 0.95
ASKING_CONFIDENCE = 0.5  # below what is converted without a person
MOST_OTHERS = 5  # one of so many sampled rows may lack what is required
_RECORDS = 40  # records that the language is judged by
_MOST_PARTS = 64  # of a mapping that are left out


@dataclass(frozen=True, kw_only=True)
class KnownLayout:
    """An export of a tool, as a file of `schemas/known` describes it.

    Attributes:
        required: paths that a row has; with values, all that is found there is among them.
        forbidden: paths that no row of this layout has.
        beside: names of files that lie beside the rows in such an export.
        ask: what a person has to confirm, "" = nothing.
        count: a path of numbers that are told with what they count.
    """

    name: str
    title: str
    docs: str
    required: tuple[Json, ...]
    forbidden: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    ask: str = ""
    count: dict[str, str] = field(default_factory=dict)
    mapping: MappingDocument

    @cached_property
    def tree(self) -> Mapping:
        """Return its mapping, which is read where rows look like it."""
        return read_tree({"version": 2, **self.mapping})

    def fits(self, rows: Sequence[Json]) -> bool:
        """Return whether most rows have all that is required and none has what is forbidden."""
        if any(_has(row, path) for row in rows for path in self.forbidden):
            return False
        rest = sum(not all(_has(row, required) for required in self.required) for row in rows)
        return bool(rows) and rest <= len(rows) // MOST_OTHERS


@cache
def known_layouts() -> tuple[KnownLayout, ...]:
    """Return all layouts by name."""
    folder = files("ingot.schemas").joinpath("known").iterdir()
    texts = [file.read_bytes() for file in folder if file.name.endswith(".json")]
    layouts = (decode(KnownLayout, orjson.loads(text)) for text in texts)
    return tuple(sorted(layouts, key=lambda layout: layout.name))


def _has(row: Json, wanted: Json) -> bool:
    path, among = (wanted, None) if isinstance(wanted, str) else (wanted["path"], wanted["in"])
    values = values_at(path, Node(row))
    return bool(values) and (
        among is None
        or all(any(same_json(value, allowed) for allowed in among) for value in values)
    )


def propose_known(
    source: Source, sample: Sample, request: Request
) -> tuple[Proposal | None, tuple[Evidence, ...]]:
    """Return the proposal of the layout that fits, else what contradicts the nearest one."""
    hits = [
        (layout, read)
        for layout in known_layouts()
        if (read := _recognize(layout, source, sample))
        and request.mode in ("auto", layout.tree.kind)
    ]
    # Not those that another one requires all of, and more.
    wants = {layout.name: set(map(str, layout.required)) for layout, _ in hits}
    best = [hit for hit in hits if not any(wants[hit[0].name] < more for more in wants.values())]
    against: list[Evidence] = []
    for layout, read in best:
        proposed = _propose_layout(layout, *read, request)
        if isinstance(proposed, Proposal):
            other_names = [
                other_layout.name for other_layout, _ in best if other_layout is not layout
            ]
            return (_doubt_layout(proposed, other_names) if other_names else proposed), ()
        why = f"it looks like {layout.title}, but the mapping of that does not fit: {proposed}"
        against.append(Evidence(target="layout", choice="none", why=why, runner_up=layout.name))
    return None, tuple(against)


def _recognize(layout: KnownLayout, source: Source, sample: Sample) -> tuple[Source, Sample] | None:
    """The source and the sample as the layout reads them, None if the rows are others."""
    names = [*(file.name for file in source.files), *(file.name for file in source.left_out)]
    base_names = {name.rpartition("/")[2] for name in names}
    are_beside = bool(layout.beside) and base_names >= set(layout.beside)
    if not (are_beside or layout.fits([row.value for row in sample.rows])):
        return None
    facts = layout.tree.source
    if facts == SourceSpec():
        return source, sample
    try:
        read = source.with_spec(source.spec.with_facts(facts))
        drawn = draw_sample(read)
    except SourceError:
        return None
    fits = not are_beside or layout.fits([row.value for row in drawn.rows])
    return (read, drawn) if fits else None


def _propose_layout(
    layout: KnownLayout, source: Source, sample: Sample, request: Request
) -> Proposal | str:
    """The proposal, or why the mapping does not fit the sample."""
    rows = [row.value for row in sample.rows]
    facts = source.guessed.with_facts(layout.tree.source)
    try:
        mapping, gone = drop_absent_parts(replace(layout.tree, source=facts), sample)
        report = check_mapping(
            mapping, sample, source_name=request.source_name or "sample", show=len(rows)
        )
    except MappingError as error:
        return str(error)
    if report.problems or not report.records:
        return "; ".join(map(str, report.problems[:2])) or "it gives no record"
    records = pick_evenly([record for _, record in report.examples], _RECORDS)
    meta = part_document(mapping.outer.meta)
    language, detected, _ = mapping_language(records, request.language, meta)
    if language is not None:
        mapping = read_tree(plain_document(mapping) | {"meta": meta | {"language": language}})
    confidence = ASKING_CONFIDENCE if layout.ask else CONFIDENCE
    why = f"known layout {layout.name}: {layout.title}, {layout.docs}"
    evidence = [
        Evidence(target="decision", choice=layout.tree.kind, why=why, confidence=confidence)
    ]
    evidence += [Evidence(target="doubt", choice="layout", why=layout.ask)] if layout.ask else []
    if gone:
        why = f"in no sampled row, so left out of the mapping: {', '.join(gone)}"
        evidence.append(Evidence(target="layout", choice=layout.name, why=why))
    evidence += _counted(layout, rows)
    return Proposal(
        decision=layout.tree.kind,
        mapping=mapping,
        confidence=confidence,
        reason=f"This is a known layout: {layout.title} ({layout.name}).",
        evidence=tuple(evidence),
        detected=detected,
        layout=layout.name,
    )


def _counted(layout: KnownLayout, rows: Sequence[Json]) -> list[Evidence]:
    """What a reader left out of the sampled rows, where it did."""
    if not layout.count:
        return []
    numbers = [value for row in rows for value in values_at(layout.count["path"], Node(row))]
    positive = [number for number in numbers if isinstance(number, int) and number > 0]
    why = f"{layout.count['what']}: {sum(positive)}, in {len(positive)} of {len(rows)} sampled rows"
    return [Evidence(target="layout", choice=layout.name, why=why)] if positive else []


def _doubt_layout(proposal: Proposal, other_names: Sequence[str]) -> Proposal:
    """The same proposal for a person, who has to say which of several layouts it is."""
    why = f"the rows could also be those of the known layout {', '.join(other_names)}"
    doubt = Evidence(target="doubt", choice="layout", why=why, runner_up=other_names[0])
    return replace(proposal, confidence=ASKING_CONFIDENCE, evidence=(*proposal.evidence, doubt))


# --- parts of a mapping that no sampled row has


def drop_absent_parts(mapping: Mapping, sample: Sample) -> tuple[Mapping, list[str]]:
    """Return the mapping without parts that no sampled row has, and the paths of these parts.

    A condition that is true for a missing value is dropped alone, any other one with the part that
    it belongs to. Raises MappingError if nothing is left.
    """
    document, gone = plain_document(mapping), []
    values = [row.value for row in sample.rows]
    for _ in range(_MOST_PARTS):
        bound = bind(document, values, where="rules")
        nodes = [node for batch in sample_batches(sample, bound) for node in row_nodes(batch)]
        problems = unresolved_problems(bound, nodes)
        if not problems:
            break
        gone.append(str(problems[0].got))
        _drop_part(document, problems[0].pointer)
    return read_tree(document), gone


def _drop_part(document: dict[str, Json], pointer: str) -> None:
    """Take the innermost element of a list, or key of `meta`, out of which a pointer leads."""
    steps = pointer.split("/")[1:]
    inside: Json = document
    place: tuple[Json, str | int] = (document, steps[0])
    around: tuple[Json, str | int] = (document, "text" if "text" in document else "messages")
    for step in steps:
        if isinstance(inside, list):
            place, around = (inside, int(step)), place
        elif inside is document.get("meta"):
            place = (inside, step)
        inside = inside[int(step)] if isinstance(inside, list) else inside.get(step)
        if inside is None:
            break
    holder, key = place
    condition = holder[key] if isinstance(key, int) else None
    if isinstance(condition, dict) and not _holds_for_missing(condition):
        holder, key = around
    del holder[key]


def _holds_for_missing(condition: dict[str, Json]) -> bool:
    holds_missing = None in condition.get("in", [None]) and None not in condition.get("not_in", [])
    return holds_missing and not condition.get("min_chars")
