"""Every gate of a proposal with its figure, judged from the check, the problems and the proposal.

The terminal, `--json`, the report and `--yes` all show these gates.
"""

from collections.abc import Iterator, Sequence

from ingot.agent.judging import model_gates
from ingot.agent.judging.policy import dispute_reason, doubt_reason
from ingot.agent.judging.sample_gates import ProblemsByCode, sample_gates
from ingot.agent.proposing.proposal import PERSONS, Proposal
from ingot.agent.state import Check, Gate, State
from ingot.converters.errors import Problem


def all_gates(
    proposal: Proposal,
    check: Check | None,
    problems: Sequence[Problem],
    *,
    least: float,
    source_name: str | None,
    requested_source: str | None,
) -> list[Gate]:
    """Every gate with its figure, in the order in which people read them."""
    by_code = ProblemsByCode(problems)
    made = [*_confidence_gate(proposal, least)]
    if check is not None and proposal.decision in ("pt", "sft"):
        made += sample_gates(check, by_code)
        made += model_gates.literal_gates(proposal, by_code)
        made += model_gates.written_gates(proposal, check, (source_name, requested_source))
    return [*made, *by_code.rest()]


def gates_of_state(state: State) -> list[Gate]:
    """The gates of a graph's state; none before there is a proposal."""
    proposal, order, source = state.get("proposal"), state["order"], state.get("source")
    if proposal is None:
        return []
    gates = all_gates(
        proposal,
        state.get("check"),
        state.get("problems", ()),
        least=order.min_confidence,
        source_name=source.name if source else None,
        requested_source=order.source_name,
    )
    return [*gates, *model_gates.rules_gates(state), *_opinion_gates(state, proposal)]


def _opinion_gates(state: State, proposal: Proposal) -> Iterator[Gate]:
    """Whether the rules come to the same records as the model, where one was asked."""
    opinion, why = state.get("opinion"), dispute_reason(state)
    if not opinion and not why:
        return
    rules = opinion.proposal if opinion else proposal
    yield Gate(
        name="second opinion",
        state="person" if why else "pass" if opinion and opinion.agrees else "warn",
        figure=f"the rules: {rules.decision}, {rules.confidence:.2f}",
        limit="the same records, or rules that are unsure",
        detail=why,
    )


def _confidence_gate(proposal: Proposal, least: float) -> Iterator[Gate]:
    if proposal.mapper not in PERSONS:
        yield Gate(
            name="confidence",
            state="person" if doubt_reason(proposal, least) else "pass",
            figure=f"{proposal.confidence:.3f}",
            limit=f"at least {least:g}" if least else "none was set",
        )
