"""Every gate of a proposal, judged from the counts of the check, the problems and the proposal.

Nothing else is asked, so that the terminal, `--json`, the report and `--yes` say the same.

What must hold before a proposal is converted without a person, with its figures.
"""

from collections.abc import Iterator, Sequence

from ingot.agent.judging import model_gates
from ingot.agent.judging.sample_gates import Gate, ProblemsByCode, StateView, sample_gates
from ingot.agent.judging.second_opinion import dispute_reason
from ingot.agent.proposing.proposal import PERSONS
from ingot.agent.state import State
from ingot.converters.errors import Problem
from ingot.converters.rows import Json

__all__ = [
    "PERSONS",
    "Gate",
    "all_gates",
    "doubt_reason",
    "failed_gates",
    "gates_of_state",
    "person_reasons",
    "state_person_reasons",
]


def failed_gates(problems: list[dict[str, Json]]) -> list[str]:
    """The gates that a proposal fails on its sample, each as one line; empty = it passes.

    The check has found every problem there is: paths that resolve nowhere, values without a role,
    texts that are no texts, too few rows that convert, an answer in its own question.
    """
    return [str(Problem(**one)) for one in problems]


def person_reasons(
    proposal: StateView,
    least: float,
    *,
    check: StateView | None = None,
    source_name: str | None = None,
    requested_source: str | None = None,
) -> list[str]:
    """What only a person may approve, however well it converts; one line each."""
    found = [why] if (why := doubt_reason(proposal, least)) else []
    written = model_gates.written_gates(proposal, check, (source_name, requested_source))
    return [*found, *(gate.detail for gate in written if gate.state == "person")]


def doubt_reason(proposal: StateView, least: float) -> str:
    """Why a mapper is not sure enough to decide alone, "" where it is."""
    if proposal["mapper"] in PERSONS or proposal["confidence"] >= least:
        return ""
    return f"confidence {proposal['confidence']:.3f} is below --min-confidence {least:g}"


def all_gates(
    proposal: StateView,
    check: StateView | None,
    problems: Sequence[dict[str, Json]],
    *,
    least: float,
    source_name: str | None,
    requested_source: str | None,
) -> list[Gate]:
    """Every gate with its figure, in the order in which people read them."""
    found = ProblemsByCode(problems)
    made = [*_confidence_gate(proposal, least)]
    if check is not None and proposal["decision"] in ("pt", "sft"):
        made += sample_gates(check, found)
        made += model_gates.literal_gates(proposal, found)
        made += model_gates.written_gates(proposal, check, (source_name, requested_source))
    return [*made, *found.rest()]


def gates_of_state(state: State) -> list[Gate]:
    """The gates of a graph's state; none before there is a proposal."""
    proposal, order = state.get("proposal"), state["order"]
    if proposal is None:
        return []
    found = all_gates(
        proposal,
        state.get("check"),
        state.get("problems", []),
        least=order["min_confidence"],
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )
    return [*found, *model_gates.rules_gates(state), *_opinion_gates(state)]


def state_person_reasons(state: State) -> list[str]:
    """What only a person may approve of a graph's state, one line each; `needs_person` of it."""
    order = state["order"]
    other = [why] if (why := dispute_reason(state)) else []
    other += [gate.detail for gate in model_gates.rules_gates(state) if gate.state == "person"]
    return other + person_reasons(
        state["proposal"] or {},
        order["min_confidence"],
        check=state.get("check"),
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )


def _opinion_gates(state: State) -> Iterator[Gate]:
    """Whether the rules come to the same records as the model, where one was asked."""
    opinion, why = state.get("opinion"), dispute_reason(state)
    if not opinion and not why:
        return
    rules = opinion["proposal"] if opinion else state["proposal"] or {}
    yield Gate(
        name="second opinion",
        state="person" if why else "pass" if opinion and opinion["agrees"] else "warn",
        figure=f"the rules: {rules['decision']}, {rules['confidence']:.2f}",
        limit="the same records, or rules that are unsure",
        detail=why,
    )


def _confidence_gate(proposal: StateView, least: float) -> Iterator[Gate]:
    if proposal["mapper"] not in PERSONS:
        yield Gate(
            name="confidence",
            state="person" if doubt_reason(proposal, least) else "pass",
            figure=f"{proposal['confidence']:.3f}",
            limit=f"at least {least:g}" if least else "none was set",
        )
