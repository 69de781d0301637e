"""validate: the proposal run on the whole sample; deterministic, no model."""

from dataclasses import asdict

from ingot.agent.context import Context
from ingot.agent.fingerprint import fingerprint
from ingot.agent.state import Order, State
from ingot.agent.trial import Trial, facts, try_out
from ingot.converters.errors import MappingError
from ingot.converters.mapping import to_document
from ingot.converters.rows import Json


def validate(state: State, context: Context) -> State:
    """Bind and check the proposed mapping; its problems go into the state, as does the bound form.

    Raises:
        MappingError: a mapping file that the user gave is wrong by itself.
    """
    proposal = state.get("proposal")
    if not proposal or not proposal["mapping"]:
        return {"check": None}
    order = Order(**state["order"])
    where = order.mapping_file or f"the mapping by {proposal['mapper']}"
    try:
        trial = try_out(context, order, proposal["mapping"], where=where)
    except MappingError as error:
        if proposal["mapper"] == "file":
            raise
        return {"check": None, "problems": [asdict(one) for one in error.problems]}
    return {
        "check": facts(trial.report),
        "problems": [asdict(one) for one in trial.report.problems],
        "proposal": {**proposal, "mapping": _document(trial, state)},
    }


def _document(trial: Trial, state: State) -> dict[str, Json]:
    """The bound document with its provenance; that of a file that the user gave is left alone."""
    document = to_document(trial.mapping)
    proposal = state["proposal"]
    if proposal is None or proposal["mapper"] == "file":
        return document
    told = {key: one for key, one in state["turn"].items() if key not in ("said", "again")}
    edited = {"edited": True} if proposal["mapper"] == "edited" else {}
    provenance = {
        **told,
        **edited,
        "confidence": proposal["confidence"],
        "coverage": trial.report.coverage,
        "detected": proposal["detected"],
        "fingerprint": fingerprint(trial.source, trial.sample),
    }
    return {**document, "provenance": provenance}
