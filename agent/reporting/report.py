"""The report of a run as Markdown: what was decided and why, its sample, the rows' fate.

Deterministic: no times, no paths of the machine, so that equal runs give equal files. What may
quote values is redacted.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ingot.agent.judging.policy import gates_of_state, irrelevance_doubt
from ingot.agent.judging.problem_words import told_problems
from ingot.agent.model.budget import Usage, spent_text
from ingot.agent.privacy import EMPTY_TEXT, Redactor, Safe, SafeProblem, redact
from ingot.agent.proposing.proposal import (
    PERSONS,
    SURE_CONFIDENCE,
    SafeProposal,
    confidence_text,
    doubts_text,
)
from ingot.agent.reporting.mapping_words import mapping_lines
from ingot.agent.reporting.preview import path_reach
from ingot.agent.state import (
    Check,
    Opinion,
    Order,
    Outcome,
    Result,
    RunStatus,
    SafeChange,
    State,
    WrittenWarnings,
    answer_message,
)
from ingot.converters import json_yaml
from ingot.converters.convert.result import Manifest
from ingot.converters.errors import count_text
from ingot.converters.mapping import language
from ingot.converters.mapping.documents.writer import to_document

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")
_MOST_FILES = 50  # that are listed
_DECIDED = {
    "pt": "pt: running text for pretraining",
    "sft": "sft: conversations for fine-tuning",
    "irrelevant": "irrelevant: nothing to convert",
    "unmappable": "unmappable: a person has to look",
}


def proposal_text(state: State, redactor: Redactor | None = None) -> Safe:
    """Return the proposal for a reviewer, without rows."""
    return Safe("\n".join(_proposal_lines(state, redactor or Redactor("redacted"))) + "\n")


def report_text(
    state: State, manifest: Manifest, rejects: Sequence[Safe], redactor: Redactor | None = None
) -> Safe:
    """Return the proposal and what its conversion gave."""
    lines = _proposal_lines(state, redactor or Redactor("redacted"))
    return Safe("\n".join([*lines, *_result_lines(manifest, rejects)]) + "\n")


def _proposal_lines(state: State, redactor: Redactor) -> Iterator[str]:
    proposal = state.get("proposal")
    yield f"# {markdown_line(state['source'].name)}"
    yield ""
    if proposal is None:
        yield "No proposal: the mapper's answers could not be read as one."
    else:
        yield f"**{_DECIDED[proposal.decision]}** ({author_text(proposal)})"
        yield ""
        yield markdown_line(reason_text(proposal, state.get("check")))
        yield from _doubt_lines(proposal)
    yield from _problem_lines(state.get("problems", ()))
    yield from _gate_lines(state)
    if proposal is not None:
        yield from _mapping_lines(proposal, state.get("check"), redactor)
        yield from _opinion_lines(state.get("opinion"), redactor)
        yield from _evidence_lines(proposal)
    yield from _source_lines(state)
    yield from _usage_lines(state.get("usage"))


def _doubt_lines(proposal: SafeProposal) -> Iterator[str]:
    if doubts := doubts_text(proposal.evidence):
        yield from ("", f"Doubts: {markdown_line(Safe(doubts))}.")


def author_text(proposal: SafeProposal | Outcome) -> str:
    """Return who proposed and how sure; a mapping that a person brought is as sure as they are."""
    by = f"by {proposal.mapper}"
    if proposal.mapper == "edited":
        return "edited by a person"
    if proposal.mapper == "file":
        return by
    return f"{by}, confidence {confidence_text(proposal.confidence or 0.0)}"


def reason_text(proposal: SafeProposal | Outcome, check: Check | None) -> Safe:
    """Return what a record is made of, and the reason of a proposal."""
    record = check.record if check else EMPTY_TEXT
    return Safe("; ".join(filter(None, (record, proposal.reason))))


def _problem_lines(problems: Sequence[SafeProblem]) -> Iterator[str]:
    if problems:
        yield from ("", "## Problems", "")
    for one in told_problems(problems):
        yield f"- {markdown_line(Safe(str(one)))}"


def _gate_lines(state: State) -> Iterator[str]:
    gates = gates_of_state(state)
    if not gates:
        return
    yield from ("", "## Gates", "")
    rows = (map(Safe, (one.name, one.state, one.figure, one.limit)) for one in gates)
    yield from markdown_table(("gate", "state", "found", "wanted"), rows)
    told = [one for one in gates if one.detail and one.state not in ("pass", "fail")]
    if told:
        yield ""
        yield from (f"- {one.name}: {markdown_line(one.detail)}" for one in told)
    check = state.get("check")
    yield from _drift_lines((check and check.drift) or ())


def _drift_lines(changes: Sequence[SafeChange]) -> Iterator[str]:
    if not changes:
        return
    yield from ("", "## Changed since the mapping was made", "")
    rows = (
        map(Safe, (one.path, one.what, one.before, one.after, "yes" if one.stops else "no"))
        for one in changes
    )
    yield from markdown_table(("path", "change", "before", "after", "stops a run"), rows)


def _mapping_lines(
    proposal: SafeProposal, check: Check | None, redactor: Redactor
) -> Iterator[str]:
    mapping = proposal.mapping
    if mapping is None or mapping.draft is not None:  # a person may have edited it so
        return
    yield from ("", "## Mapping", "")
    yield from markdown_table(("target", "from"), mapping_lines(mapping, redactor))
    if not check:
        return
    yield from ("", "## Sample", "")
    share = f"{check.coverage:.1%} without an error"
    seen = f"{check.ok_rows}/{check.rows} sampled rows"
    yield from (f"{seen} give {check.records} records ({share}).", "")
    yield from markdown_table(("path", "place", "found in"), path_reach(check.paths, redactor))
    if len(files := check.loss.files) > 1:
        yield ""
        rows = [
            map(Safe, (one, f"{read:,}", f"{made:,}")) for one, read, made in files[:_MOST_FILES]
        ]
        yield from markdown_table(("file", "sampled rows", "records"), rows)
        if len(files) > _MOST_FILES:
            yield from ("", f"{len(files) - _MOST_FILES:,} more files are not listed.")
    yield ""
    for reason, count in check.failures.items():
        yield f"- {markdown_line(Safe(reason))}: {count}"
    for warning in check.warnings:
        yield f"- warning: {markdown_line(warning)}"


def _opinion_lines(opinion: Opinion | None, redactor: Redactor) -> Iterator[str]:
    """The rules' proposal beside a model's that makes other records."""
    if not opinion or opinion.agrees:
        return
    other = opinion.proposal
    yield from ("", "## The rules propose something else", "")
    yield f"**{_DECIDED[other.decision]}** ({author_text(other)})"
    yield ""
    yield markdown_line(Safe(other.reason))
    yield from _doubt_lines(other)
    if other.mapping:
        yield from ("", "As alternative.json:", "")
        yield from markdown_table(("target", "from"), mapping_lines(other.mapping, redactor))


def _evidence_lines(proposal: SafeProposal) -> Iterator[str]:
    if not proposal.evidence:
        return
    yield from ("", "## Why", "")
    rows = (
        map(
            Safe,
            (one.target, one.choice, one.why, one.runner_up or "", confidence_text(one.confidence)),
        )
        for one in proposal.evidence
    )
    yield from markdown_table(("decision", "choice", "why", "runner-up", "confidence"), rows)


def _source_lines(state: State) -> Iterator[str]:
    source, sample = state["source"], state.get("sample")
    yield from ("", "## Source", "")
    yield f"{count_text(source.files, 'file')}, {source.bytes} bytes."
    yield from (f"{markdown_line(one)}." for one in source.tables)
    if sample:
        whole = " (all of them)" if sample.complete else ""
        rows = sample.rows + sample.bad
        some = f"{count_text(rows, 'row')} sampled{whole}"
        yield f"{some}, {sample.bad} of them unreadable."
    if source.unread:
        yield ""
        counts = (
            (one.name, Safe(f"{one.files:,}"), Safe(f"{one.bytes:,}"))
            for one in source.unread.kinds
        )
        yield from markdown_table(("not read", "files", "bytes"), counts)
        yield ""
    yield from (f"- read: {markdown_line(one)}" for one in source.read)
    for one in source.left_out:
        yield f"- left out: {markdown_code(Safe(one.name))}: {markdown_line(Safe(one.why))}"
    more = source.left_out_count - len(source.left_out)
    if more:
        yield f"- left out: {more} more"


def _usage_lines(usage: Usage | None) -> Iterator[str]:
    if not usage:
        return
    yield from ("", "## Model", "")
    where = f"{markdown_code(Safe(usage.host))}, model {markdown_code(Safe(usage.model))}"
    if usage.shared:
        yield f"Of data of this shape parts were sent to {where}; the answer serves all of it."
    elif usage.chars_sent:
        taken = f"{count_text(usage.calls, 'call')}, {spent_text(usage)}"
        yield f"Parts of the sample were sent to {where}: {taken}."
    elif usage.remembered:
        yield f"An earlier answer was used, of {where}. Nothing was sent."
    else:
        yield f"Nothing was sent to {where}."


def _result_lines(manifest: Manifest, rejects: Sequence[Safe]) -> Iterator[str]:
    yield from ("", "## Result", "")
    yield from _count_table("rows", "count", manifest["rows"])
    yield ""
    yield from _count_table("records", "count", manifest["records"])
    if manifest["rejects"]:
        yield ""
        yield from _count_table("rejected because of", "records", manifest["rejects"])
        yield from ("", "The first ones (all are in rejected/):", "")
        yield from (f"- {markdown_code(Safe(one[:300]))}" for one in rejects)
    for text in json_yaml.decode(WrittenWarnings, manifest["warnings"]).texts():
        yield from ("", f"{markdown_line(redact(text))}.")
    if manifest["tokens"]:
        yield ""
        yield from _count_table("tokens", "value", manifest["tokens"])


def _count_table(name: str, count: str, counts: Mapping[str, object]) -> Iterator[str]:
    """A table of counts by names that ingot gives them."""
    rows = ((redact(key), redact(str(one))) for key, one in counts.items())
    yield from markdown_table((name, count), rows)


def markdown_table(head: Sequence[str], rows: Iterable[Iterable[Safe]]) -> Iterator[str]:
    """Yield a Markdown table; cells are data and are shown as they are."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(markdown_line, row))} |"


def markdown_line(text: Safe) -> Safe:
    """Return any text as one line of Markdown without control characters and markup."""
    plain = _CONTROL.sub(" ", text)
    return Safe(re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", plain))


def markdown_code(text: Safe) -> Safe:
    """Return the text of unknown origin as code."""
    return Safe(f"`{_CONTROL.sub(' ', text).replace('`', '´')}`")


def mapping_bytes(mapping: language.Mapping) -> bytes:
    """Return a mapping as people review it: its document indented, in the language's order."""
    return (json.dumps(to_document(mapping), ensure_ascii=False, indent=2) + "\n").encode()


_PROBLEMS = 5  # that are told
DROPPED_RUN = Safe(
    "The previous run waited for an answer. It was ended and its proposal discarded."
)
IGNORED_WORDS = Safe("The order was sent as an object. The text sent with it is ignored.")
UNREAD_WORDS = Safe(
    "That order was sent as an object. The text sent with it was ignored: send it again."
)


# What the end of a run is called, where nothing was written.
_ENDING_TEXTS: dict[RunStatus, str] = {
    "done": "Approved. No `--out` was named, so nothing was converted.",
    "already_done": "This was converted before.",
    "rejected": "Rejected.",
    "failed": "The run failed.",
    "blocked": "The proposal did not pass its gates.",
    "waiting": "Only a person may decide this.",
    "unmappable": "No mapping was found; a person has to write one.",
    "unusable": "No mapping was found that could be run.",
    "irrelevant": "There is nothing to convert.",
    "dry_run": "This was a dry run.",
    "budget": "A budget is used up, or the model cannot be asked.",
}
_BY_ITSELF = ("done", "rejected", "failed")  # the proposal's reason is not why


def beginning_reply(order: Order) -> Safe:
    """Return what a run says when it has understood its order."""
    said = f"I read {markdown_code(Safe(order.source))} and propose a mapping of its fields."
    if order.dry_run:
        return Safe(f"{said} This is a dry run: nothing is written.")
    if order.out is None:
        return Safe(f"{said} No `--out` was named: what is approved is shown and not converted.")
    when = "if it passes its gates" if order.yes else "after you approve it"
    into = f"{when.capitalize()}, the data is converted into {markdown_code(Safe(order.out))}."
    asked = " I ask you about decisions that need a person." if order.yes else ""
    return Safe(f"{said} {into}{asked}")


def edited_reply(state: State) -> Safe:
    """Return what a run says of a mapping that a person has edited, before it asks again."""
    problems, check = _short_problem_lines(state["problems"]), state.get("check")
    if not check:
        return Safe("\n".join(["The edited mapping cannot be run:", "", *problems]))
    fits = f"The edited mapping fits {check.ok_rows} of {check.rows} sampled rows."
    return Safe("\n".join([fits, "", *problems]).strip())


def ending_reply(outcome: Outcome) -> Safe:
    """Return what a run says at its end: counts and where the files are, or why there are none."""
    if outcome.result:
        return _result_text(outcome, outcome.result)
    why = outcome.why if outcome.status in _BY_ITSELF else outcome.why or outcome.reason
    ending = f"{_ENDING_TEXTS[outcome.status]} {markdown_line(why or Safe(''))}".strip()
    problems = "\n".join(_short_problem_lines(outcome.problems))
    return Safe("\n\n".join([ending, "Nothing was written.", problems]).strip())


def _short_problem_lines(problems: Sequence[SafeProblem]) -> list[str]:
    return [f"- {markdown_line(Safe(str(one)))}" for one in told_problems(problems)[:_PROBLEMS]]


def _result_text(outcome: Outcome, result: Result) -> Safe:
    head = {
        "done": "Converted.",
        "already_done": "This was converted before; nothing was written.",
        "irrelevant": f"Nothing to convert: {markdown_line(outcome.reason or Safe(''))}",
    }[outcome.status]
    rows = ", ".join(f"{name} {count}" for name, count in result.manifest.rows.items())
    records = ", ".join(f"{name} {count}" for name, count in result.manifest.records.items())
    lines = [
        head,
        f"- rows: {rows}",
        f"- records: {records}",
        f"- files: {markdown_code(Safe(result.out))}",
    ]
    return Safe("\n".join([*lines, *(f"- {markdown_line(Safe(one))}" for one in result.notes)]))


# --- how a run stands, as an object


# What a review's decision means for the run.
_UNCONVERTED: dict[str, RunStatus] = {"irrelevant": "irrelevant", "unmappable": "unmappable"}
_STATUS: dict[str, RunStatus] = {
    "approve": "done",
    "reject": "rejected",
    "edit": "waiting",
    "again": "waiting",
    "held": "blocked",
    "person": "waiting",
    "dry_run": "dry_run",
}


def run_outcome(state: State) -> Outcome:
    """Return the current outcome of the run, for people and programs."""
    proposal = state.get("proposal")
    stopped, review = state.get("stopped"), state.get("review")
    said = stopped.why if stopped else review.why if review else EMPTY_TEXT
    return Outcome(
        status=run_status(state),
        why=said or irrelevance_doubt(state),
        source=state.get("source"),
        decision=proposal.decision if proposal else None,
        mapper=proposal.mapper if proposal else None,
        confidence=proposal.confidence if proposal else None,
        reason=Safe(proposal.reason) if proposal else None,
        evidence=proposal.evidence if proposal else (),
        mapping=proposal.mapping if proposal else None,
        check=state.get("check"),
        problems=state.get("problems", ()),
        gates=tuple(gates_of_state(state)),
        opinion=state.get("opinion"),
        usage=state.get("usage"),
        notes=tuple(run_notes(state)),
        result=state.get("result"),
    )


def run_notes(state: State) -> list[str]:
    """Return what people should look at although the gates let the run pass."""
    order, proposal, review = state["order"], state.get("proposal"), state.get("review")
    approved = order.yes and review is not None and review.decision == "approve"
    if not approved or proposal is None:
        return []
    if proposal.mapper in PERSONS or proposal.confidence >= SURE_CONFIDENCE:
        return []
    who = "the model is" if proposal.mapper == "llm" else f"the {proposal.mapper} are"
    where = Path(order.out or "", "report.md")
    return [f"{who} unsure ({confidence_text(proposal.confidence)}): look at {where}"]


def run_status(state: State) -> RunStatus:
    """Return how a run ended."""
    if state.get("stopped"):
        return "budget"
    proposal, review, result = state.get("proposal"), state.get("review"), state.get("result")
    decision = review.decision if review else None
    if decision != "reject" and proposal and proposal.decision in _UNCONVERTED:
        return "waiting" if irrelevance_doubt(state) else _UNCONVERTED[proposal.decision]
    if decision is None or (decision == "approve" and not state["check"]):
        return "unusable"
    if decision == "approve" and result and result.already_done:
        return "already_done"
    return _STATUS[decision]


def outcome_state(state: State, outcome: Outcome) -> State:
    """Return what the end of a run changes of its state."""
    if not state.get("messages"):
        return {"outcome": outcome}
    return {"outcome": outcome, "messages": [answer_message(ending_reply(outcome))]}
