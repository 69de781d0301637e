"""validate: the proposal run on the whole sample; deterministic, no model."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from ingot.agent.context import Context
from ingot.agent.judging import drift, fixed_texts
from ingot.agent.judging.trial import Trial, report_facts, try_out
from ingot.agent.nodes.propose import document_decision
from ingot.agent.privacy import redact, redact_value
from ingot.agent.proposing.fingerprint import shape_fingerprint, source_shape
from ingot.agent.state import Order, State
from ingot.converters.errors import DriftError, MappingError, Problem, SourceError, StorageError
from ingot.converters.mapping.bind import to_document
from ingot.converters.rows import Json


def validate(state: State, context: Context) -> State:
    """Bind and check the proposed mapping; its problems go into the state, as does the bound form.

    Problems may quote values: they are redacted before the state, a report or a model sees them.
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
        return {"check": None, "problems": _redacted_problems(error.problems)}
    except SourceError as error:
        if not _states_facts(proposal) or isinstance(error, StorageError):
            raise
        return {
            "check": None,
            "problems": _redacted_problems(
                [_unreadable_problem(proposal["mapping"], error.problem)]
            ),
        }
    if not trial.report.rows and _states_facts(proposal):
        return {
            "check": None,
            "problems": _redacted_problems([_unreadable_problem(proposal["mapping"], "no row")]),
        }
    document = _with_provenance(trial, state)
    faults = fixed_texts.meta_faults(document) if proposal["mapper"] == "llm" else []
    found: State = {
        "check": report_facts(trial.report),
        "problems": _redacted_problems([*trial.report.problems, *faults]),
        "proposal": {**proposal, "mapping": document, "decision": _decide(proposal, document)},
    }
    return _add_drift(found, trial, order) if proposal["mapper"] == "file" else found


def _decide(proposal: dict[str, Json], document: dict[str, Json]) -> str:
    """What is decided; a person who edits a mapping may have decided otherwise."""
    return (
        document_decision(document) if proposal["mapper"] == "edited" else str(proposal["decision"])
    )


def _states_facts(proposal: dict[str, Json]) -> bool:
    """Whether a mapper said how the files are to be read; a person is told of it otherwise."""
    return proposal["mapper"] != "file" and bool(proposal["mapping"].get("source"))


def _unreadable_problem(document: dict[str, Json], found: str) -> Problem:
    """That the files cannot be read as the document says."""
    pointer = "/source/root" if "root" in document["source"] else "/source"
    return Problem(pointer, "unreadable", "facts that the files can be read by", found)


def _redacted_problems(problems: Iterable[Problem]) -> list[dict[str, Json]]:
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


def _with_provenance(trial: Trial, state: State) -> dict[str, Json]:
    """The bound document with its provenance; that of a file that the user gave is left alone."""
    document = to_document(trial.mapping)
    proposal = state["proposal"]
    if proposal is None or proposal["mapper"] == "file":
        return document
    told = dict(sorted(state["turn"]["provenance"].items()))  # the same from any memory
    edited = {"edited": True} if proposal["mapper"] == "edited" else {}
    made_for = source_shape(trial.source, trial.sample)
    provenance = {
        **told,
        **edited,
        "confidence": proposal["confidence"],
        "coverage": trial.report.coverage,
        "detected": proposal["detected"],
        "fingerprint": shape_fingerprint(made_for),
        "shape": made_for,
    }
    return {**document, "provenance": provenance}


# --- drift


def _add_drift(found: State, trial: Trial, order: Order) -> State:
    """The state with what has changed since the mapping was made; nothing of one made by hand."""
    kept = drift.stored_shape(order.mapping or {})
    if kept is None:
        return found
    now = source_shape(trial.source, trial.sample)
    changes = drift.mapping_changes(drift.find_drift(kept, now), trial.mapping)
    told = [{**one.to_json(), **redact_value(one.texts())} for one in changes[: drift.MOST_CHANGES]]
    found["check"] = {**(found["check"] or {}), "drift": told, "changes": len(changes)}
    stopping = [one for one in changes if one.stops]
    if stopping and not order.allow_drift:
        found["problems"] = [
            *found["problems"],
            *_redacted_problems([drift.drift_problem(stopping)]),
        ]
        if order.out is not None:
            raise _drift_error(order, changes)
    return found


def _drift_error(order: Order, changes: Sequence[drift.Change]) -> DriftError:
    where = order.mapping_file or "mapping"
    said = f"{order.source} has not the shape that the mapping was made for"
    lines = [redact(line) for line in drift.change_lines(changes)]
    hint = "to convert it nevertheless: --allow-drift; a new mapping: ingot map"
    return DriftError(where, said, "\n".join([*lines, hint]))
