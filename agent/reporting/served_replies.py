"""What a served run says to the person who typed its order, as Markdown."""

from collections.abc import Sequence

from ingot.agent.reporting.report import markdown_code, markdown_line
from ingot.agent.state import Order, Outcome, Result, State
from ingot.converters.errors import Problem

_PROBLEMS = 5  # that are told
DROPPED_RUN = "The run before waited for an answer: it is ended, and what it proposed is dropped."
IGNORED_WORDS = "An order came as an object: it is used, and the words beside it are not read."
UNREAD_WORDS = "That order came as an object. What was typed beside it was not read: type it again."


# What the end of a run is called, where nothing was written.
_ENDING_TEXTS = {
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


def beginning_reply(order: Order) -> str:
    """What a run says when it has understood its order."""
    said = f"I read {markdown_code(order.source)} and propose a mapping of its fields."
    if order.dry_run:
        return f"{said} This is a dry run: nothing is written."
    if order.out is None:
        return f"{said} No `--out` was named: what is approved is shown and not converted."
    when = "if it passes its gates" if order.yes else "once you approve it"
    into = f"{when.capitalize()}, the data is converted into {markdown_code(order.out)}."
    asked = " What only a person may decide I ask you." if order.yes else ""
    return f"{said} {into}{asked}"


def edited_reply(state: State) -> str:
    """What a run says of a mapping that a person has edited, before it asks again."""
    problems, check = _problem_lines(state["problems"]), state.get("check")
    if not check:
        return "\n".join(["The edited mapping cannot be run:", "", *problems])
    fits = f"The edited mapping fits {check.ok_rows} of {check.rows} sampled rows."
    return "\n".join([fits, "", *problems]).strip()


def ending_reply(outcome: Outcome) -> str:
    """What a run says at its end: counts and where the files are, or why there are none."""
    if outcome.result:
        return _result_text(outcome, outcome.result)
    why = outcome.why if outcome.status in _BY_ITSELF else outcome.why or outcome.reason
    ending = f"{_ENDING_TEXTS[outcome.status]} {markdown_line(why or '')}".strip()
    problems = "\n".join(_problem_lines(outcome.problems))
    return "\n\n".join([ending, "Nothing was written.", problems]).strip()


def _problem_lines(problems: Sequence[Problem]) -> list[str]:
    return [
        "- " + markdown_line(f"{one.pointer or '/'}: expected {one.expected}, got {one.got}")
        for one in problems[:_PROBLEMS]
    ]


def _result_text(outcome: Outcome, result: Result) -> str:
    head = {
        "done": "Converted.",
        "already_done": "This was converted before; nothing was written.",
        "irrelevant": f"Nothing to convert: {markdown_line(outcome.reason or '')}",
    }[outcome.status]
    rows = ", ".join(f"{name} {count}" for name, count in result.manifest.rows.items())
    records = ", ".join(f"{name} {count}" for name, count in result.manifest.records.items())
    lines = [
        head,
        f"- rows: {rows}",
        f"- records: {records}",
        f"- files: {markdown_code(result.out)}",
    ]
    return "\n".join([*lines, *(f"- {markdown_line(one)}" for one in result.notes)])
