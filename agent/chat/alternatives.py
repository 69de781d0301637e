"""Find other mappings that could be meant: the rules' own, the other mode's, and the runners-up."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ingot.agent.chat.edits import Edit, apply_edits
from ingot.agent.chat.typed_values import ValueSyntaxError, split_outside_quotes
from ingot.agent.context import Context
from ingot.agent.judging.trial import try_out
from ingot.agent.proposing.proposal import (
    Proposal,
    SafeProposal,
    confidence_text,
    doubts_text,
)
from ingot.agent.state import State
from ingot.converters.errors import MappingError, SourceError
from ingot.converters.mapping.language import META_KEYS, Layout, Mapping

_OTHER_MODE = {"pt": "sft", "sft": "pt"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """Another mapping and what it is in one line.

    `why` may quote values of the data, `title` does not. `confidence` is None of a mapping that
    nobody has judged as a whole; `rows` of the sample give records.
    """

    title: str
    mapping: Mapping
    decision: str
    why: str = ""
    confidence: float | None = None
    rows: int = 0


def find_alternatives(
    state: State, context: Context, proposal: SafeProposal | None = None
) -> tuple[Alternative, ...]:
    """Find other mappings than that of a state, or than one of now, that pass on the sample."""
    current = proposal or state.get("proposal")
    mapping = (current and current.mapping) or Mapping(outer=Layout())
    decision = current.decision if current else "no mapping"
    seen, alternatives = [mapping], []
    for one in _candidate_mappings(state, context, mapping, decision):
        try:
            trial = try_out(context.readings, state["order"], one.mapping, where="an alternative")
        except (MappingError, SourceError):  # it reads the files otherwise, and cannot
            continue
        if not trial.report.problems and trial.mapping not in seen:
            seen.append(trial.mapping)
            alternatives.append(replace(one, mapping=trial.mapping, rows=trial.report.ok_rows))
    return tuple(alternatives)


def _candidate_mappings(
    state: State, context: Context, mapping: Mapping, decision: str
) -> Iterator[Alternative]:
    order, opinion, first = state["order"], state.get("opinion"), state.get("proposal")
    proposals: list[Proposal | None] = [opinion.proposal] if opinion else []
    for mode in ("auto", _OTHER_MODE.get(decision, "sft")):
        request = replace(order.request(), mode=mode)
        proposals.append(context.ask_rules(request).proposal)
    for one in proposals:
        if one and one.mapping:
            decision_text = f"{one.decision}, confidence {confidence_text(one.confidence)}"
            doubts = doubts_text(one.evidence)
            yield Alternative(
                title=f"the rules' {decision_text}",
                mapping=one.mapping,
                decision=one.decision,
                why=f"{one.reason} {doubts}".strip(),
                confidence=one.confidence,
            )
    if first:
        yield from _runners_up(first, mapping, decision)


def _runners_up(proposal: Proposal, mapping: Mapping, decision: str) -> Iterator[Alternative]:
    """Yield the second-best fields of the mapper's choices, each in the current mapping."""
    for one in proposal.evidence:
        edit = _runner_up_edit(one.target, one.runner_up or "")
        if edit is None:
            continue
        try:
            changed = apply_edits(mapping, [edit])
        except MappingError:
            continue
        title = f"{one.target} from {one.runner_up} (runner-up of {one.choice})"
        yield Alternative(title=title, mapping=changed, decision=decision)


def _runner_up_edit(target: str, runner_up: str) -> Edit | None:
    try:
        fields = list(split_outside_quotes(runner_up, ","))
    except ValueSyntaxError:
        return None
    if target == "text":
        return {"set": "text", "parts": fields, "alternative": None}
    key = target.removeprefix("meta.")
    if key in META_KEYS and len(fields) == 1:
        return {"set": "meta", "key": key, "value": fields[0]}
    return None
