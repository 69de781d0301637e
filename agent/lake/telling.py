"""What is told of one data set of a lake: its facts, from what became of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ingot.agent.cards import card
from ingot.agent.lake.order import SETS, LakeOrder
from ingot.agent.mappers.proposal import Proposal
from ingot.agent.redaction import redact
from ingot.agent.waiting import MAPPING
from ingot.converters.commit import Finished, finished
from ingot.converters.errors import IngotError
from ingot.converters.json_files import load_json
from ingot.converters.lake.facts import SetFacts, Status
from ingot.converters.lake.figures import measure
from ingot.converters.lake.survey import DataSet
from ingot.converters.readers.facts import LeftOut

_SHOWN: Final = 20
_SPENT: Final = ("calls", "chars_sent", "tokens_in", "tokens_out", "cost")


def known(data_set: DataSet) -> SetFacts:
    """What is known before anything is read."""
    source = data_set.source
    beside = card(data_set.cards) if data_set.cards else None
    return SetFacts(
        name=data_set.name,
        place=redact(data_set.place),
        status="nothing",
        format=source.files[0].facts.format if source.files else "",
        files=len(source.files),
        bytes=sum(file.bytes or 0 for file in source.files),
        left_out=tuple(
            {"name": redact(one.name), "why": redact(one.why)} for one in source.left_out[:_SHOWN]
        ),
        left_out_count=len(source.left_out),
        card=beside.facts() if beside else {},
    )


def unreadable(facts: SetFacts, faults: Sequence[LeftOut]) -> SetFacts:
    """The facts of a data set of which files cannot be read."""
    told = "; ".join(f"{one.name}: {one.why}" for one in faults[:3])
    why = f"{len(faults)} file{'s' * (len(faults) != 1)} cannot be read: {told}"
    hint = "mend or move away what cannot be read; it is tried again when its files change"
    return replace(facts, status="failed", why=redact(why), hint=hint)


def for_others(facts: SetFacts, data_set: DataSet, root: str) -> SetFacts:
    """The facts of what another command reads; paths in the command are relative to the root."""
    assert isinstance(data_set.said, Proposal)
    hint = f"{redact(data_set.said.reason)} (paths below {redact(root)})"
    why = "it is read by another command"
    return replace(facts, status="other", decision="irrelevant", why=why, hint=hint)


def with_former(order: LakeOrder, facts: SetFacts) -> SetFacts:
    """The facts with the result of an earlier run, which stays though it is not the present one."""
    if facts.result or finished(order.result(facts.name)) is None:
        return facts
    why = f"{facts.why} (the result of an earlier run is still there: it is not in the corpus)"
    return replace(facts, result=f"{SETS}/{facts.name}", why=why)


def ended(facts: SetFacts, status: Status, error: IngotError) -> SetFacts:
    """The facts of a data set at which something went wrong."""
    hint = str(getattr(error, "hint", ""))
    why = str(error) if not hint else str(type(error)(*error.args[:2]))
    return replace(facts, status=status, why=redact(why), hint=redact(hint))


def proposed(facts: SetFacts, told: dict[str, Any]) -> SetFacts:
    """The facts with what was proposed.

    Args:
        facts: what is known of the data set.
        told: the outcome of its run, see `ingot.agent.nodes.report`.
    """
    check, usage = told["check"] or {}, told["usage"]
    mapping = told["mapping"] or {}
    provenance = mapping.get("provenance") or {}
    of_file = told["mapper"] == "file" and "mapper" in provenance
    return replace(
        facts,
        decision=told["decision"],
        mapper=provenance["mapper"] if of_file else told["mapper"],
        model=usage.get("model") or provenance.get("model"),
        confidence=provenance.get("confidence") if of_file else told["confidence"],
        coverage=check.get("coverage"),
        spent={key: usage[key] for key in _SPENT if key in usage},
        mapping=told["mapping"],
        fingerprint=provenance.get("fingerprint"),
        why="by its approved mapping" if of_file else redact(told["reason"] or ""),
    )


def converted(order: LakeOrder, facts: SetFacts, done: Finished) -> SetFacts:
    """The facts with what the result holds; measures its records.

    Raises:
        ConversionError: the records are not what the manifest says.
        OutputError: what is measured cannot be kept.
    """
    name, manifest = facts.name, done.manifest
    tokens = manifest["tokens"] or {}
    made = replace(
        facts,
        status="nothing",
        decision=manifest["decision"],
        rows=manifest["rows"],
        records=manifest["records"],
        rejects=manifest["rejects"],
        tokens=tokens.get("tokens"),
        sequences=tokens.get("sequences"),
        figures=measure(done.folder, order.hashes(name), redact),
        mapping=None,
        mapping_file=None,
        result=f"{SETS}/{name}",
    )
    if manifest["decision"] == "irrelevant":
        return made
    return replace(
        made,
        status="converted",
        mapping=load_json(done.folder / MAPPING),
        mapping_file=beside(order.mapping(name), order.out),
    )


def beside(file: Path, lake: Path) -> str:
    """A path as the lake's page and catalog name it."""
    return str(file.relative_to(lake)) if file.is_relative_to(lake) else str(file)
