"""Every gate of a proposal, judged from the counts of the check, the problems and the proposal.

Nothing else is asked, so that the terminal, `--json`, the report and `--yes` say the same.
"""

from collections.abc import Iterator, Sequence

from ingot.agent.gates import by_model
from ingot.agent.gates.gate import Document, Found, Gate
from ingot.agent.gates.sample import on_sample
from ingot.agent.mappers.proposal import PERSONS
from ingot.agent.opinion import disputed
from ingot.agent.state import State
from ingot.converters.errors import Problem
from ingot.converters.rows import Json


def failed(problems: list[dict[str, Json]]) -> list[str]:
    """The gates that a proposal fails on its sample, each as one line; empty = it passes.

    The check has found every problem there is: paths that resolve nowhere, values without a role,
    texts that are no texts, too few rows that convert, an answer in its own question.
    """
    return [str(Problem(**one)) for one in problems]


def needs_person(
    proposal: Document,
    least: float,
    *,
    check: Document | None = None,
    source_name: str | None = None,
    requested_source: str | None = None,
) -> list[str]:
    """What only a person may approve, however well it converts; one line each.

    Args:
        proposal: as the state holds it.
        least: the confidence from which on a mapper may decide alone.
        check: counts of the mapping on the sample, None = what it leaves out is not judged.
        source_name: name of the data set.
        requested_source: what the user wants `meta.source` to be.
    """
    found = [why] if (why := unsure(proposal, least)) else []
    written = by_model.written(proposal, check, (source_name, requested_source))
    return [*found, *(gate.detail for gate in written if gate.state == "person")]


def unsure(proposal: Document, least: float) -> str:
    """Why a mapper is not sure enough to decide alone, "" where it is."""
    if proposal["mapper"] in PERSONS or proposal["confidence"] >= least:
        return ""
    return f"confidence {proposal['confidence']:.3f} is below --min-confidence {least:g}"


def gates(
    proposal: Document,
    check: Document | None,
    problems: Sequence[dict[str, Json]],
    *,
    least: float,
    source_name: str | None,
    requested_source: str | None,
) -> list[Gate]:
    """Every gate with its figure, in the order in which people read them.

    Args:
        proposal: as the state holds it.
        check: counts of the mapping on the sample, None = it could not be run.
        problems: `Problem` as objects; each belongs to one failed gate.
        least: the confidence from which on a mapper may decide alone.
        source_name: name of the data set.
        requested_source: what the user wants `meta.source` to be.
    """
    found = Found(problems)
    made = [*_sure(proposal, least)]
    if check is not None and proposal["decision"] in ("pt", "sft"):
        made += on_sample(check, found)
        made += by_model.faulty(proposal, found)
        made += by_model.written(proposal, check, (source_name, requested_source))
    return [*made, *found.rest()]


def of_state(state: State) -> list[Gate]:
    """The gates of a graph's state; none before there is a proposal."""
    proposal, order = state.get("proposal"), state["order"]
    if proposal is None:
        return []
    found = gates(
        proposal,
        state.get("check"),
        state.get("problems", []),
        least=order["min_confidence"],
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )
    return [*found, *by_model.against_rules(state), *_second_opinion(state)]


def reserved(state: State) -> list[str]:
    """What only a person may approve of a graph's state, one line each; `needs_person` of it."""
    order = state["order"]
    other = [why] if (why := disputed(state)) else []
    other += [gate.detail for gate in by_model.against_rules(state) if gate.state == "person"]
    return other + needs_person(
        state["proposal"] or {},
        order["min_confidence"],
        check=state.get("check"),
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )


def _second_opinion(state: State) -> Iterator[Gate]:
    """Whether the rules come to the same records as the model, where one was asked."""
    opinion, why = state.get("opinion"), disputed(state)
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


def _sure(proposal: Document, least: float) -> Iterator[Gate]:
    if proposal["mapper"] not in PERSONS:
        yield Gate(
            name="confidence",
            state="person" if unsure(proposal, least) else "pass",
            figure=f"{proposal['confidence']:.3f}",
            limit=f"at least {least:g}" if least else "none was set",
        )
