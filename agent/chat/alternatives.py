"""Other mappings that could be meant: the rules' own, the other mode's, the runners-up.

Each is tried on the sample; one that does not pass is not offered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ingot.agent.chat.conversation import Conversation
from ingot.agent.chat.edits import Edit, applied
from ingot.agent.chat.values import BadValue, split
from ingot.agent.context import Context
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.trial import try_out
from ingot.converters.errors import MappingError, SourceError
from ingot.converters.language import META_KEYS
from ingot.converters.mapping import to_document
from ingot.converters.rows import Json

_OTHER_MODE = {"pt": "sft", "sft": "pt"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """Another mapping, bound, and what it is in one line."""

    title: str
    mapping: dict[str, Json]


def alternatives(conversation: Conversation, context: Context) -> tuple[Alternative, ...]:
    """Those that pass on the sample and are not the current mapping; each mapping once.

    Raises:
        SourceError: the source cannot be read any more.
    """
    seen = [_core(conversation.mapping)]
    found = []
    for title, document in _candidates(conversation, context):
        passed = _passing(document, conversation, context)
        if passed is not None and _core(passed) not in seen:
            seen.append(_core(passed))
            found.append(Alternative(title=title, mapping=passed))
    return tuple(found)


def _core(document: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if key != "provenance"}


def _passing(
    document: dict[str, Json], conversation: Conversation, context: Context
) -> dict[str, Json] | None:
    """The bound document, None where it has a problem on the sample."""
    try:
        trial = try_out(context, conversation.order, document, where="an alternative")
    except (MappingError, SourceError):  # it reads the files otherwise, and they cannot be read so
        return None
    return None if trial.report.problems else to_document(trial.mapping)


def _candidates(
    conversation: Conversation, context: Context
) -> Iterator[tuple[str, dict[str, Json]]]:
    state = conversation.steps[0].state
    opinion = state.get("opinion") or {}
    proposals = [opinion.get("proposal")] if opinion else []
    decision = (conversation.state.get("proposal") or {}).get("decision")
    for mode in ("auto", _OTHER_MODE.get(str(decision), "sft")):
        proposals.append(_by_rules(conversation, context, mode))
    for one in proposals:
        if one and one["mapping"]:
            sure = f"{one['decision']}, confidence {one['confidence']:.2f}"
            yield f"the rules' {sure}: {one['reason']}", one["mapping"]
    yield from _runners_up(conversation, state.get("proposal") or {})


def _by_rules(conversation: Conversation, context: Context, mode: str) -> dict[str, Json] | None:
    order = conversation.order
    source, sample = context.drawn(order.source, stated_spec(order))
    request = replace(order.request(), mode=mode)
    found = context.turner("rules")(source, sample, request, ()).proposal
    return found.to_json() if found else None


def _runners_up(
    conversation: Conversation, proposal: dict[str, Json]
) -> Iterator[tuple[str, dict[str, Json]]]:
    """The second-best fields of the mapper's choices, each in the current mapping."""
    for one in proposal.get("evidence") or []:
        edit = _edit(one["target"], one["runner_up"] or "")
        if edit is None:
            continue
        try:
            made = applied(conversation.mapping, [edit])
        except MappingError:
            continue
        yield f"{one['target']} from {one['runner_up']} (runner-up of {one['choice']})", made


def _edit(target: str, runner_up: str) -> Edit | None:
    """A runner-up that is a list of fields as an edit; None where it is something else."""
    try:
        fields = list(split(runner_up, ","))
    except BadValue:
        return None
    if target == "text":
        return {"set": "text", "parts": fields, "alternative": None}
    key = target.removeprefix("meta.")
    if key in META_KEYS and len(fields) == 1:
        return {"set": "meta", "key": key, "value": fields[0]}
    return None
