"""validate: the proposal run on the whole sample; deterministic, no model."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from ingot.agent import drift
from ingot.agent.context import Context
from ingot.agent.fingerprint import fingerprint_of, shape
from ingot.agent.gates import texts
from ingot.agent.nodes.propose import decision_of
from ingot.agent.redaction import redact, redacted
from ingot.agent.state import Order, State
from ingot.agent.trial import Trial, facts, try_out
from ingot.converters.errors import (
    DriftError,
    MappingError,
    Problem,
    SourceError,
    StorageError,
)
from ingot.converters.mapping import to_document
from ingot.converters.rows import Json


def validate(state: State, context: Context) -> State:
    """Bind and check the proposed mapping; its problems go into the state, as does the bound form.

    Problems may quote values: they are redacted before the state, a report or a model sees them.

    Raises:
        MappingError: a mapping file that the user gave is wrong by itself.
        DriftError: the data has not the shape that the given mapping was made for.
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
        return {"check": None, "problems": _shown(error.problems)}
    except SourceError as error:
        if not _states_facts(proposal) or isinstance(error, StorageError):
            raise
        return {
            "check": None,
            "problems": _shown([_unreadable(proposal["mapping"], error.problem)]),
        }
    if not trial.report.rows and _states_facts(proposal):
        return {"check": None, "problems": _shown([_unreadable(proposal["mapping"], "no row")])}
    document = _document(trial, state)
    faults = texts.faults(document) if proposal["mapper"] == "llm" else []
    found: State = {
        "check": facts(trial.report),
        "problems": _shown([*trial.report.problems, *faults]),
        "proposal": {**proposal, "mapping": document, "decision": _decision(proposal, document)},
    }
    return _with_drift(found, trial, order) if proposal["mapper"] == "file" else found


def _decision(proposal: dict[str, Json], document: dict[str, Json]) -> str:
    """What is decided; a person who edits a mapping may have decided otherwise."""
    return decision_of(document) if proposal["mapper"] == "edited" else str(proposal["decision"])


def _states_facts(proposal: dict[str, Json]) -> bool:
    """Whether a mapper said how the files are to be read; a person is told of it otherwise."""
    return proposal["mapper"] != "file" and bool(proposal["mapping"].get("source"))


def _unreadable(document: dict[str, Json], found: str) -> Problem:
    """That the files cannot be read as the document says."""
    pointer = "/source/root" if "root" in document["source"] else "/source"
    return Problem(pointer, "unreadable", "facts that the files can be read by", found)


def _shown(problems: Iterable[Problem]) -> list[dict[str, Json]]:
    return [
        asdict(
            replace(
                one,
                expected=redact(one.expected),
                got=redact(one.got),
                nearest=redact(one.nearest) if one.nearest else one.nearest,
            )
        )
        for one in problems
    ]


def _document(trial: Trial, state: State) -> dict[str, Json]:
    """The bound document with its provenance; that of a file that the user gave is left alone."""
    document = to_document(trial.mapping)
    proposal = state["proposal"]
    if proposal is None or proposal["mapper"] == "file":
        return document
    told = dict(sorted(state["turn"]["provenance"].items()))  # the same from any memory
    edited = {"edited": True} if proposal["mapper"] == "edited" else {}
    made_for = shape(trial.source, trial.sample)
    provenance = {
        **told,
        **edited,
        "confidence": proposal["confidence"],
        "coverage": trial.report.coverage,
        "detected": proposal["detected"],
        "fingerprint": fingerprint_of(made_for),
        "shape": made_for,
    }
    return {**document, "provenance": provenance}


# --- drift


def _with_drift(found: State, trial: Trial, order: Order) -> State:
    """The state with what has changed since the mapping was made; nothing of one made by hand."""
    kept = drift.kept_shape(order.mapping or {})
    if kept is None:
        return found
    now = shape(trial.source, trial.sample)
    changes = drift.for_mapping(drift.drift(kept, now), trial.mapping)
    told = [{**one.to_json(), **redacted(one.texts())} for one in changes[: drift.MOST_TOLD]]
    found["check"] = {**(found["check"] or {}), "drift": told, "changes": len(changes)}
    stopping = [one for one in changes if one.stops]
    if stopping and not order.allow_drift:
        found["problems"] = [*found["problems"], *_shown([drift.problem(stopping)])]
        if order.out is not None:
            raise _drifted(order, changes)
    return found


def _drifted(order: Order, changes: Sequence[drift.Change]) -> DriftError:
    where = order.mapping_file or "mapping"
    said = f"{order.source} has not the shape that the mapping was made for"
    lines = [redact(line) for line in drift.lines(changes)]
    hint = "to convert it nevertheless: --allow-drift; a new mapping: ingot map"
    return DriftError(where, said, "\n".join([*lines, hint]))
