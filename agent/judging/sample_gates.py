"""The gates that a mapping's run on the sample decides, and how a gate's figure is written."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, ParamSpec

from ingot.agent.privacy import EMPTY_TEXT, Safe, redact
from ingot.agent.state import Check, Gate
from ingot.converters.errors import Problem, count_text
from ingot.converters.json_yaml import shorten_text
from ingot.converters.mapping.check import MAX_UNREADABLE, MIN_COVERAGE
from ingot.converters.mapping.rows.executor import SOFT_REASONS
from ingot.converters.mapping.signs import SIGNS, exceeds
from ingot.converters.output.figures import format_share, format_whole_percent
from ingot.converters.sources.text_kinds import Content, MostFrequent

_MOST_DETAIL = 400
State = Literal["pass", "warn", "person"]
Case = ParamSpec("Case")  # what a rule looks at


class ProblemsByCode:
    """The problems by code; what no gate has asked for is left for gates of their own."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._left = list(problems)

    def take(self, code: str, within: str = "") -> list[Problem]:
        """Return the problems of one code, where wanted only those whose pointer has a part."""
        matching = [one for one in self._left if one.code == code and within in one.pointer]
        self._left = [one for one in self._left if one not in matching]
        return matching

    def rest(self) -> Iterator[Gate]:
        """Yield a failed gate for each code that is left."""
        for code in dict.fromkeys(one.code for one in self._left):
            yield failing_gate(code.replace("_", " "), self.take(code), "none")


def failing_gate(name: str, problems: Sequence[Problem], limit: str, figure: str = "") -> Gate:
    """Return a gate that passes where there is no problem.

    The figure is their number if none is given.
    """
    count = count_text(len(problems), "problem") if problems else "none"
    return Gate(
        name=name,
        state="fail" if problems else "pass",
        figure=figure or count,
        limit=limit,
        detail=detail_text(problem_text(one) for one in problems),
    )


def person_gate(name: str, why: str, findings: Sequence[str], limit: str) -> Gate:
    """Return a gate that only a person opens where something was found."""
    detail = detail_text([f"{why}: {', '.join(findings)}"])
    return _gate_of(
        "person" if findings else "pass", name, str(len(findings) or "none"), limit, detail
    )


@dataclass(frozen=True)
class GateRule(Generic[Case]):
    """A gate that only a person opens: its name, what it says, its limit, and what finds it."""

    name: str
    why: str
    limit: str
    find: Callable[Case, Iterable[str]]

    def gate(self, findings: Iterable[str]) -> Gate:
        """Return the gate, which passes where nothing was found."""
        return person_gate(self.name, self.why, [*findings], self.limit)


def _gate_of(state: State, name: str, figure: str, limit: str, detail: Safe) -> Gate:
    """A gate whose detail is told where it does not pass."""
    shown_detail = EMPTY_TEXT if state == "pass" else detail
    return Gate(name=name, state=state, figure=figure, limit=limit, detail=shown_detail)


def problem_text(problem: Problem) -> str:
    """Return a problem's place and what was found there."""
    suggestion = f", nearest: {problem.nearest}" if problem.nearest else ""
    return f"{problem.pointer or '/'}: {problem.got}{suggestion}"


def detail_text(lines: Iterable[str]) -> Safe:
    """Return places and values as one text without secrets, cut where it is long."""
    return Safe(shorten_text(redact("; ".join(lines)), _MOST_DETAIL, "..."))


# Soft outcomes above this share are pointed at; of a model's making they are for a person.
MOST_LEFT_OUT = 0.5
# The same text in nearly all of so many records is no accident either.
_NEARLY_ALL, _MANY = 0.95, 20
_FEWEST_SAME = 3


def sample_gates(check: Check, by_code: ProblemsByCode) -> Iterator[Gate]:
    """Yield the gates of a mapping that was run."""
    failures = check.failures
    unreadable = check.unreadable
    soft = {reason: failures[reason] for reason in SOFT_REASONS if failures.get(reason)}
    tried = check.records + sum(failures.values()) - unreadable
    yield failing_gate(
        "coverage",
        by_code.take("coverage"),
        f"at least {format_whole_percent(MIN_COVERAGE)}",
        format_share(check.records + sum(soft.values()), tried),
    )
    records = f"{check.records} of {check.rows} rows"
    yield failing_gate("records", by_code.take("no_records"), "at least one", records)
    for reason, count in soft.items():
        exceeds_limit = count > MOST_LEFT_OUT * tried
        yield Gate(
            name=reason.replace("_", " "),
            state="fail" if (not check.records) else "warn" if exceeds_limit else "pass",
            figure=format_share(count, tried),
            limit="fewer than all",
        )
    yield failing_gate(
        "unreadable rows",
        by_code.take("unreadable"),
        f"at most {format_whole_percent(MAX_UNREADABLE)}",
        format_share(unreadable, check.rows),
    )
    yield from _path_gates(check, by_code)
    yield from _content_gates(check.content, by_code)
    yield from _drift_gate(check, by_code)


def _path_gates(check: Check, by_code: ProblemsByCode) -> Iterator[Gate]:
    paths = check.paths
    resolved = sum(bool(one.resolved or one.null) for one in paths)
    nowhere = by_code.take("unresolved_path")
    yield failing_gate("paths", nowhere, "each is in the data", f"{resolved}/{len(paths)}")
    unnamed = by_code.take("unmapped_value", "/role")
    if unnamed or any("/role" in one.pointer for one in paths):
        lost = check.failures.get("unmapped_value", 0)
        records = f"in {count_text(lost, 'record')}"
        yield failing_gate("unmapped role values", unnamed, "none", records if unnamed else "none")
    for code, name in (("unmapped_value", "unmapped values"), ("not_text", "texts")):
        if problems := by_code.take(code):
            yield failing_gate(
                name, problems, "none without a text" if code == "not_text" else "none"
            )


def _content_gates(content: Content, by_code: ProblemsByCode) -> Iterator[Gate]:
    usual = content.usual
    if "answers" in usual:
        yield failing_gate("paths on both sides", by_code.take("both_sides"), "none")
        none = by_code.take("no_training")
        records = format_share(content.trained_records, content.records)
        chars = 100 * content.trained_chars / max(1, content.chars)
        is_below_limit = content.trained_records < MIN_COVERAGE * content.records
        yield Gate(
            name="trained on",
            state="fail" if none else "warn" if is_below_limit else "pass",
            figure=f"{records} records, {chars:.1f} % of the characters",
            limit="at least one message",
        )
    for side, counts in usual.items():
        yield Gate(
            name=f"most frequent {side.removesuffix('s')}",
            state="warn" if is_constant(counts) else "pass",
            figure=format_share(counts.count, counts.texts),
            limit="not one text in all records",
        )
    for side, count in content.numbers.items():
        yield Gate(
            name=f"lists of numbers as {side}",
            state="warn" if 2 * count >= content.records else "pass",
            figure=format_share(count, content.records),
            limit="under 50 %: they look like token ids",
        )


def is_constant(counts: MostFrequent) -> bool:
    """Return whether texts are the same in all, or in nearly all of many."""
    texts, most_frequent = counts.texts, counts.count
    same = texts >= _FEWEST_SAME and most_frequent == texts
    return bool(same or (texts >= _MANY and most_frequent >= _NEARLY_ALL * texts))


def _drift_gate(check: Check, by_code: ProblemsByCode) -> Iterator[Gate]:
    changes = check.changes
    if changes is None:
        return
    stopping = by_code.take("drift")
    yield Gate(
        name="shape of the data",
        state="fail" if stopping else "warn" if changes else "pass",
        figure=count_text(changes, "change"),
        limit="that of the data the mapping was made for",
        detail=detail_text(problem_text(one) for one in stopping),
    )


# Of the characters of longer texts; below, what is left out was more than half wrong in all cases.
LEAST_YIELD = 0.2
MOST_WORDLESS = 0.3
MOST_NO_TIMES = 0.1


def loss_gates(check: Check, *, by_person: bool) -> Iterator[Gate]:
    """Yield what the mapping leaves behind: for a person, unless a person wrote the mapping."""
    loss = check.loss
    stop: State = "warn" if by_person else "person"
    content = check.content
    share = format_share(min(content.chars, loss.text_chars), loss.text_chars)
    limit = f"at least {format_whole_percent(LEAST_YIELD)} of the characters"
    detail = Safe(f"the records hold {share} of the characters of the texts")
    low: State = stop if content.chars < LEAST_YIELD * loss.text_chars else "pass"
    yield _gate_of(low, "text in the records", share, limit, detail)
    files = [f"{file} ({rows} rows)" for file, rows in loss.silent_files]
    detail = detail_text([f"no sampled row gives a record: {', '.join(files[:5])}"])
    silent: State = stop if files else "pass"
    yield _gate_of(silent, "files without a record", str(len(files) or "none"), "none", detail)
    yield _share_gate(
        "texts without words",
        (content.wordless, content.records, MOST_WORDLESS),
        Safe("records hold a text that is an id, an address or masked"),
        stop,
    )
    if content.timestamps:
        yield _share_gate(
            "unparsed timestamps",
            (content.no_times, content.timestamps, MOST_NO_TIMES),
            Safe("values of meta.timestamp are not a date or time"),
            stop,
        )
    yield from _sign_gates(check, stop)


def _sign_gates(check: Check, stop: State) -> Iterator[Gate]:
    """What is counted over all rows too, while they are converted."""
    stopped, documents = stopped_signs(check), "answers" not in check.content.usual
    for name, sign in SIGNS.items():
        rows = _sign_rows(check, name)
        if documents and not rows and name != "media":
            continue
        state: State = stop if name in stopped else "pass"
        figure = format_share(rows, check.ok_rows) if rows else "none"
        yield _gate_of(state, sign.gate, figure, sign.limit, Safe(f"{figure} {sign.why}"))


def stopped_signs(check: Check) -> list[str]:
    """Return the signs of which the sample shows more than their gates let pass."""
    documents = "answers" not in check.content.usual
    return [
        name
        for name in SIGNS
        if exceeds(name, _sign_rows(check, name), check.ok_rows, documents=documents)
    ]


def _sign_rows(check: Check, name: str) -> int:
    rows = (check.signs or {}).get(name, 0)
    if name == "conversations" and "answers" not in check.content.usual:
        return min(rows, check.ok_rows - rows)  # documents that all are such are meant to be
    return max(rows, check.loss.captions) if name == "media" else rows


def _share_gate(name: str, figures: tuple[int, int, float], explanation: Safe, stop: State) -> Gate:
    """Stop where a part of a whole is more than a share of it; `explanation` follows the figure."""
    part, total, limit_share = figures
    figure, limit = format_share(part, total), f"at most {format_whole_percent(limit_share)}"
    state: State = stop if part > limit_share * total else "pass"
    return _gate_of(state, name, figure, limit, Safe(f"{figure} {explanation}"))


def left_out_gates(check: Check) -> Iterator[Gate]:
    """Yield how much a model's conditions and dropped roles leave out."""
    failures = check.failures
    left_out = sum(failures.get(reason, 0) for reason in SOFT_REASONS)
    tried = check.records + sum(failures.values()) - check.unreadable
    yield _half_gate(Safe("records left out"), left_out, tried)
    if check.messages:
        yield _half_gate(Safe("messages left out"), check.dropped, check.messages)


def filter_gate(check: Check) -> Gate:
    """Return how much the conditions leave out that the rules found and nobody asked for."""
    tried = check.records + sum(check.failures.values()) - check.unreadable
    return _half_gate(Safe("records left out"), check.failures.get("filtered", 0), tried)


def _half_gate(name: Safe, left_out: int, total: int) -> Gate:
    figure, limit = format_share(left_out, total), f"at most {format_whole_percent(MOST_LEFT_OUT)}"
    detail = Safe(f"the mapping leaves out more than half: {name} {figure}")
    exceeds_limit = left_out > MOST_LEFT_OUT * total
    return _gate_of("person" if exceeds_limit else "pass", name, figure, limit, detail)


def constant_answer_gates(check: Check) -> Iterator[Gate]:
    """Yield whether a mapper found the same thing to train on in all records."""
    usual = check.content.usual
    for side in ("text", "answers"):
        if side in usual:
            state: State = "person" if is_constant(usual[side]) else "pass"
            figure = format_share(usual[side].count, usual[side].texts)
            detail = Safe(f"the mapping trains on the same text in {figure} records")
            yield _gate_of(state, f"constant {side}", figure, "not one text in all records", detail)
