"""What a run may do next (ask a model, ask a person, convert), and every gate with its figure.

The terminal, `--json`, the report and `--yes` all show these gates.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ingot.agent.judging import model_gates
from ingot.agent.judging.problem_words import told_problems
from ingot.agent.judging.sample_gates import (
    ProblemsByCode,
    constant_answer_gates,
    filter_gate,
    loss_gates,
    sample_gates,
    stopped_signs,
)
from ingot.agent.privacy import EMPTY_TEXT, Safe, SafeProblem
from ingot.agent.proposing.order import Order
from ingot.agent.proposing.proposal import (
    MODEL,
    PERSONS,
    SURE_CONFIDENCE,
    Attempt,
    Proposal,
    SafeProposal,
    confidence_text,
    doubts_text,
    exhausted_reason,
)
from ingot.agent.state import Check, Gate, Review, State, UnreadFiles
from ingot.converters.convert.options import read_counts
from ingot.converters.errors import count_text
from ingot.converters.output.figures import format_share, format_whole_percent
from ingot.converters.rows import Provenance

DOUBTED_CONFIDENCE = 0.7  # a model that says less of itself names its doubt, as it is told to
MOST_REPAIRS = 2
MOST_TURNS = 5  # the rules', a remembered one and three of a model
REVIEW_ANSWERS = ("approve", "edit", "reject")
MOST_UNREAD = 0.1  # of the bytes that look like data
MOST_ELSEWHERE = 0.5  # of the bytes that can be read
_CONFIDENCE = "confidence"  # the gate's name, and the first word of its reason
_SURE_RULES = 0.9  # rules that say more of themselves were right 96 times of 100


# --- whether a mapper is asked again


def may_repair(state: State) -> bool:
    """Return whether a mapper may correct its answer; a model's turns have a count of their own."""
    limit = MOST_TURNS if state["order"].mapper in ("auto", MODEL) else MOST_REPAIRS
    return state["turn"].again and len(state["attempts"]) < limit


def may_look(state: State) -> bool:
    """Return whether the model may look at its records: once, and not after its last attempt."""
    attempts = state["attempts"]
    has_looked = any(one.signals is not None for one in attempts)
    has_answer = bool(state["turn"].level) and state.get("check") is not None
    return (
        has_answer and not has_looked and not exhausted_reason([*attempts, closed_attempt(state)])
    )


def closed_attempt(
    state: State, problems: tuple[SafeProblem, ...] = (), signals: tuple[str, ...] | None = None
) -> Attempt:
    """Return the turn as the attempt that it was."""
    turn = state["turn"]
    return Attempt(
        mapper=turn.mapper,
        said=turn.said,
        level=turn.level,
        card=turn.provenance.get("card", ""),
        problems=problems,
        signals=signals,
    )


# --- whether a person is asked


def is_attended(state: State) -> bool:
    """Return whether a person can be asked anything: in a server's run that is not a dry run.

    The command line asks about a mapping only; its exit status says why it stopped.
    """
    return bool(state.get("served")) and not state["order"].dry_run


def asks_person(state: State) -> bool:
    """Return whether a person is asked even if there is nothing to convert."""
    return is_attended(state) and not state["order"].yes


def allowed_answers(state: State) -> tuple[str, ...]:
    """Return what may be answered; without a data file a mapping would have nothing to read."""
    return REVIEW_ANSWERS if state["source"].files else ("approve", "reject")


def unfit_reason(state: State) -> Safe:
    """Return why what a person has approved would convert nothing, "" if it would, or is to."""
    check, proposal = state.get("check"), state.get("proposal")
    if not is_attended(state) or (proposal and proposal.decision == "irrelevant"):
        return EMPTY_TEXT
    if not check:
        return Safe("It cannot be run: edit the mapping, or reject it.")
    if check.records:
        return EMPTY_TEXT
    return Safe("It makes no record of the sampled rows: edit the mapping, or reject it.")


def approved_counts(state: State) -> dict[str, int | None] | None:
    """Return what gates on all rows may find; None if a person answers for the whole mapping.

    What the sample shows too is settled (None: any number) once a person has seen it.
    """
    proposal, check = state.get("proposal"), state.get("check")
    provenance = (proposal and proposal.mapping and proposal.mapping.provenance) or {}
    if provenance.get("mapper") not in ("rules", MODEL) or provenance.get("edited"):
        return None
    approved: dict[str, int | None] = {**_read_approved(provenance, "approved")}
    if state.get("seen") or provenance.get("reviewed") is True:
        approved |= _read_approved(provenance, "counted")
        if check and proposal:
            approved |= dict.fromkeys(stopped_signs(check))
    counts_option = state["order"].approve_counts
    return (
        approved | state.get("approved", {}) | (read_counts(counts_option) if counts_option else {})
    )


def _read_approved(provenance: Provenance, key: str) -> dict[str, int]:
    """Counts in the provenance of a mapping, which anybody may have written."""
    counts = provenance.get(key)
    return (
        {name: one for name, one in counts.items() if isinstance(one, int)}
        if isinstance(counts, dict)
        else {}
    )


# --- whether a proposal is converted without a person


def review_by_gates(state: State) -> Review:
    """Return the decision of the gates alone."""
    if failed := failed_gates(state.get("problems", ())):
        return Review(decision="held", why=Safe("; ".join(failed)))
    if reserved := state_person_reasons(state):
        return Review(decision="person", why=Safe("; ".join(reserved)))
    return Review(decision="approve", why=Safe("all gates passed"))


def failed_gates(problems: Sequence[SafeProblem]) -> list[str]:
    """Return the gates that a proposal fails on its sample, each as one line; empty = it passes.

    The check has found every problem there is: paths that resolve nowhere, values without a role,
    values that are not texts, too few rows that convert, an answer in its own question.
    """
    return [str(one) for one in told_problems(problems)]


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A proposal in the state of its run; `problems` are those that no gate has asked for yet."""

    state: State
    proposal: SafeProposal
    problems: ProblemsByCode

    @property
    def check(self) -> Check | None:
        """Return what the mapping made of the sample; None where it makes no records."""
        return self.state.get("check") if self.proposal.decision in ("pt", "sft") else None


_Family: TypeAlias = Callable[[_Case], Iterator[Gate]]


def _find_gates(families: Sequence[_Family], state: State) -> list[Gate]:
    """Return the gates of some families; none before there is a proposal."""
    proposal = state.get("proposal")
    if proposal is None:
        return []
    problems = ProblemsByCode(state.get("problems", ()))
    case = _Case(state=state, proposal=proposal, problems=problems)
    return [gate for find in families for gate in find(case)]


def gates_of_state(state: State) -> list[Gate]:
    """Return every gate with its figure, as people read them; none before there is a proposal."""
    return _find_gates(_AS_READ, state)


def state_person_reasons(state: State) -> list[str]:
    """Return what only a person may approve in a run, however well it converts; one line each."""
    return _person_reasons([*_find_gates(_FOR_PERSONS, state), *_halted_gate(state)])


def _person_reasons(gates: Iterable[Gate]) -> list[str]:
    return [gate.detail for gate in gates if gate.state == "person" and gate.detail]


def _sample_gates(case: _Case) -> Iterator[Gate]:
    """Yield what the mapping's run on the sample shows."""
    if case.check is not None:
        yield from sample_gates(case.check, case.problems)
        yield from _loss_gates(case)
        yield from model_gates.literal_gates(case.proposal, case.problems)
        yield from model_gates.written_gates(case.state)


def _loss_gates(case: _Case) -> Iterator[Gate]:
    check, proposal = case.check, case.proposal
    if check is not None:
        yield from loss_gates(check, by_person=proposal.mapper in PERSONS)
        if proposal.mapper == "rules":
            gates = [*constant_answer_gates(check)]
            if not proposal.layout:  # what a known layout leaves out is written down
                gates.append(filter_gate(check))
            yield from (one for one in gates if one.state != "pass")


def least_confidence(order: Order) -> float:
    """Return the confidence that a proposal needs: what was asked for, or the default."""
    return SURE_CONFIDENCE if order.min_confidence is None else order.min_confidence


def doubt_reason(proposal: Proposal, order: Order) -> str:
    """Return why a mapper is not sure enough to decide alone, "" if it is."""
    low = _shortfall_text(proposal, order)
    return f"{_CONFIDENCE} {low}" if low else ""


def _shortfall_text(proposal: Proposal, order: Order) -> str:
    """Say how far the confidence stays below what is needed, "" if it does not."""
    required = least_confidence(order)
    if proposal.mapper in PERSONS or proposal.confidence >= required:
        return ""
    doubts = doubts_text(proposal.evidence)
    low = f"{confidence_text(proposal.confidence)} is below --min-confidence {required:g}"
    return f"{low}: {doubts}" if doubts else low


def irrelevance_doubt(state: State) -> Safe:
    """Return why it is not sure enough that there is nothing to convert, "" if it is."""
    proposal, review = state.get("proposal"), state.get("review")
    decided = review is not None and review.decision in ("approve", "reject")
    if decided or proposal is None or proposal.decision != "irrelevant":
        return EMPTY_TEXT
    gates = _find_gates((lambda case: _confidence_gate(case, named=True), _source_gates), state)
    return Safe("; ".join(_person_reasons(gates)) or dispute_reason(state))


def dispute_reason(state: State) -> str:
    """Return why a person has to choose between a model and the rules, "" if nobody has to."""
    proposal, opinion, turn = state.get("proposal"), state.get("opinion"), state.get("turn")
    if proposal is None or proposal.mapper in PERSONS:
        return ""
    if turn and turn.fallback and state["order"].mapper == MODEL:
        return f"{turn.fallback}; what is proposed is the rules' own"
    if proposal.mapper != MODEL:
        return ""
    first_answer, nothing = state.get("looked"), proposal.decision in ("irrelevant", "unmappable")
    if first_answer and nothing:
        first = first_answer.proposal.decision
        return f"the model's first answer converts ({first}), its second finds nothing to convert"
    if not opinion or opinion.agrees:
        return ""
    rules, model = opinion.proposal, proposal.confidence
    other = (
        f"the rules propose something else ({rules.decision}, {confidence_text(rules.confidence)})"
    )
    if rules.confidence >= _SURE_RULES:
        return f"{other} and are sure of it"
    if model < DOUBTED_CONFIDENCE:
        return f"{other}, and the model is unsure ({confidence_text(model)})"
    if nothing and rules.decision in ("pt", "sft"):
        return f"{other}, where the model finds nothing to convert"
    return ""


def _source_gates(case: _Case) -> Iterator[Gate]:
    """What of the source is not read, and what its files and rows are, whatever the mapping is."""
    state, proposal = case.state, case.proposal
    yield from _unread_gate(state, proposal)
    yield from _other_shapes_gate(state, proposal)
    seen = (state.get("source"), state.get("sample"), state.get("check"))
    for gate in (gate for one in seen if one for gate in one.gates):
        yield replace(gate, state="warn") if proposal.mapper in PERSONS else gate


def _halted_gate(state: State) -> Iterator[Gate]:
    """What stopped the conversion, until a person approves exactly that."""
    if halted := state.get("halted"):
        yield Gate(
            name="gates on all rows",
            state="person",
            figure=", ".join(f"{name}={rows}" for name, rows in halted.counts.items()),
            limit="counts that a person approved",
            detail=halted.why,
        )


def _unread_gate(state: State, proposal: SafeProposal) -> Iterator[Gate]:
    """How much of what looks like data lies in formats that are not read, where some does.

    What is recognized without a sample, such as preprocessed arrays, is for another command.
    """
    source = state.get("source")
    recognized = proposal.decision == "irrelevant" and not state.get("sample")
    unread = source and (source.unconverted if proposal.decision == "irrelevant" else source.unread)
    if not unread or recognized:
        return
    exceeds_limit = unread.bytes > MOST_UNREAD * unread.of_bytes and proposal.mapper not in PERSONS
    files = count_text(unread.files, "file")
    share = format_share(unread.bytes, unread.of_bytes)
    yield Gate(
        name="unread formats",
        state="person" if exceeds_limit else "warn",
        figure=f"{files}, {share} of the bytes: {_unread_kinds(unread)}",
        limit=f"at most {format_whole_percent(MOST_UNREAD)} of the bytes",
        detail=Safe(
            f"{files} ({share} of the bytes) in formats that are not read: "
            f"{_unread_kinds(unread)}; "
            f"{unread.first}; {unread.hint}"
        ),
    )


def _unread_kinds(unread: UnreadFiles) -> str:
    """The formats that are not read, with files and bytes of each."""
    return ", ".join(
        f"{one.name} ({count_text(one.files, 'file')}, {one.bytes:,} bytes)" for one in unread.kinds
    )


def _other_shapes_gate(state: State, proposal: SafeProposal) -> Iterator[Gate]:
    """How much of the data has another shape than what is read, where that is most of it."""
    source = state.get("source")
    total = source.bytes + source.other_bytes if source else 0
    limit = MOST_ELSEWHERE if proposal.decision in ("pt", "sft") else MOST_UNREAD
    if source is None or source.other_bytes <= limit * total:
        return
    share = format_share(source.other_bytes, total)
    yield Gate(
        name="files of another shape",
        state="warn" if proposal.mapper in PERSONS else "person",
        figure=f"{share} of the bytes",
        limit=f"at most {format_whole_percent(limit)} of the bytes",
        detail=Safe(
            f"{share} of the bytes are left out, in files of another shape: `ingot lake run` "
            "converts several data sets of one folder"
        ),
    )


def _opinion_gate(case: _Case) -> Iterator[Gate]:
    """Whether the rules come to the same records as the model, where one was asked."""
    opinion, reason = case.state.get("opinion"), dispute_reason(case.state)
    if not opinion and not reason:
        return
    rules = opinion.proposal if opinion else case.proposal
    yield Gate(
        name="second opinion",
        state="person" if reason else "pass" if opinion and opinion.agrees else "warn",
        figure=f"the rules: {rules.decision}, {confidence_text(rules.confidence)}",
        limit="the same records, or rules that are unsure",
        detail=Safe(reason),
    )


def _confidence_gate(case: _Case, *, named: bool = False) -> Iterator[Gate]:
    """Whether the mapper is sure; a reason alone is `named`, a gate has its name beside it."""
    proposal, order = case.proposal, case.state["order"]
    if proposal.mapper not in PERSONS:
        low = (doubt_reason if named else _shortfall_text)(proposal, order)
        yield Gate(
            name=_CONFIDENCE,
            state="person" if low else "pass",
            figure=confidence_text(proposal.confidence),
            limit=f"at least {least_confidence(order):g}",
            detail=Safe(low),
        )


# All gates, in the order in which people read their figures (docs/gates.md).
_AS_READ: tuple[_Family, ...] = (
    _confidence_gate,
    _source_gates,
    _sample_gates,
    lambda case: case.problems.rest(),
    lambda case: _halted_gate(case.state),
    lambda case: model_gates.rules_gates(case.state),
    _opinion_gate,
)
# Those that only a person opens, in the order of their reasons; what stopped a conversion is last.
_FOR_PERSONS: tuple[_Family, ...] = (
    _opinion_gate,
    lambda case: model_gates.rules_gates(case.state),
    lambda case: _confidence_gate(case, named=True),
    lambda case: model_gates.written_gates(case.state),
    _loss_gates,
    _source_gates,
)
