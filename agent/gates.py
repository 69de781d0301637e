"""What must hold before a proposal is converted without a person looking at it, with its figures.

Every gate is judged from the counts of the check, the problems found and the proposal alone, so
that the terminal, `--json`, the report and `--yes` say the same. `docs/gates.md` lists them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from ingot.agent import authored
from ingot.agent.redaction import redact
from ingot.agent.state import State
from ingot.converters.check import MAX_UNREADABLE, MIN_COVERAGE
from ingot.converters.errors import Problem
from ingot.converters.rows import Json
from ingot.converters.unify import SOFT_REASONS

GateState = Literal["pass", "warn", "fail", "person"]
Document = Mapping[str, Json]

# A mapping that a person wrote or corrected needs no second look.
PERSONS = ("file", "edited")
# More than this share of the records left out by a model's conditions is for a person to approve.
MOST_LEFT_OUT = 0.5
# The same text in nearly all of so many records is no accident either.
_NEARLY_ALL, _MANY = 0.95, 20
_FEWEST_SAME = 3
_DETAIL = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Gate:
    """One thing that must hold, and how it stands.

    Attributes:
        name: what is looked at.
        state: `pass`, `warn` (told, stops nothing), `fail` (exit 1), `person` (exit 3).
        figure: what was found, as people read it: "196/200 (98.0 %)".
        limit: what is wanted: "at least 98 %".
        detail: places and values, redacted; "" where there is nothing to add.
    """

    name: str
    state: GateState
    figure: str
    limit: str
    detail: str = ""

    def to_json(self) -> dict[str, Json]:
        """The gate as plain JSON types."""
        return asdict(self)


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
    reserved = _authored(proposal, check, (source_name, requested_source))
    return [*found, *(gate.detail for gate in reserved if gate.state == "person")]


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
    found = _Found(problems)
    made = [*_sure(proposal, least)]
    if check is not None and proposal["decision"] in ("pt", "sft"):
        made += _on_sample(check, found)
        made += _authored_faults(proposal, found)
        made += _authored(proposal, check, (source_name, requested_source))
    return [*made, *found.rest()]


def of_state(state: State) -> list[Gate]:
    """The gates of a graph's state; none before there is a proposal."""
    proposal, order = state.get("proposal"), state["order"]
    if proposal is None:
        return []
    return gates(
        proposal,
        state.get("check"),
        state.get("problems", []),
        least=order["min_confidence"],
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )


def reserved(state: State) -> list[str]:
    """What only a person may approve of a graph's state, one line each; `needs_person` of it."""
    order = state["order"]
    return needs_person(
        state["proposal"] or {},
        order["min_confidence"],
        check=state.get("check"),
        source_name=state.get("source", {}).get("name"),
        requested_source=order["source_name"],
    )


class _Found:
    """The problems by code; what no gate has asked for is left for gates of their own."""

    def __init__(self, problems: Sequence[dict[str, Json]]) -> None:
        self._left = [Problem(**one) for one in problems]

    def take(self, code: str, within: str = "") -> list[Problem]:
        """The problems of one code, where wanted only those whose pointer has a part."""
        taken = [one for one in self._left if one.code == code and within in one.pointer]
        self._left = [one for one in self._left if one not in taken]
        return taken

    def rest(self) -> Iterator[Gate]:
        for code in dict.fromkeys(one.code for one in self._left):
            yield _failing(code.replace("_", " "), self.take(code), "none")


def _failing(name: str, problems: Sequence[Problem], limit: str, figure: str = "") -> Gate:
    """A gate that passes where there is no problem; the figure is their number if none is given."""
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else "none"
    return Gate(
        name=name,
        state="fail" if problems else "pass",
        figure=figure or count,
        limit=limit,
        detail=_detail(_said(one) for one in problems),
    )


def _said(problem: Problem) -> str:
    near = f", nearest: {problem.nearest}" if problem.nearest else ""
    return f"{problem.pointer or '/'}: {problem.got}{near}"


def _detail(lines: Iterator[str] | Sequence[str]) -> str:
    text = "; ".join(lines)
    shown = redact(text)
    return shown if len(shown) <= _DETAIL else f"{shown[: _DETAIL - 3]}..."


def share(part: int, whole: int) -> str:
    """A count and its share, never rounded up: "196/200 (98.0 %)"."""
    if not whole:
        return f"{part}/{whole}"
    return f"{part}/{whole} ({math.floor(1000 * part / whole) / 10:.1f} %)"


# --- what the sample shows


def _sure(proposal: Document, least: float) -> Iterator[Gate]:
    if proposal["mapper"] not in PERSONS:
        yield Gate(
            name="confidence",
            state="person" if unsure(proposal, least) else "pass",
            figure=f"{proposal['confidence']:.3f}",
            limit=f"at least {least:g}",
        )


def _on_sample(check: Document, found: _Found) -> Iterator[Gate]:
    failures = check["failures"]
    unreadable = check.get("unreadable", 0)
    soft = {reason: failures[reason] for reason in SOFT_REASONS if failures.get(reason)}
    tried = check["records"] + sum(failures.values()) - unreadable
    yield _failing(
        "coverage",
        found.take("coverage"),
        f"at least {MIN_COVERAGE:.0%}".replace("%", " %"),
        share(check["records"] + sum(soft.values()), tried),
    )
    records = f"{check['records']} of {check['rows']} rows"
    yield _failing("records", found.take("no_records"), "at least one", records)
    for reason, count in soft.items():
        yield _soft(reason, count, tried, none_left=not check["records"])
    yield _failing(
        "unreadable rows",
        found.take("unreadable"),
        f"at most {MAX_UNREADABLE:.0%}".replace("%", " %"),
        share(unreadable, check["rows"]),
    )
    yield from _paths(check, found)
    yield from _contents(check.get("content") or {}, found)
    yield from _drifted(check, found)


def _soft(reason: str, count: int, tried: int, *, none_left: bool) -> Gate:
    """A share of its own: it stops the run only where nothing is left."""
    state: GateState = "warn" if count > MOST_LEFT_OUT * tried else "pass"
    return Gate(
        name=reason.replace("_", " "),
        state="fail" if none_left else state,
        figure=share(count, tried),
        limit="not all",
    )


def _paths(check: Document, found: _Found) -> Iterator[Gate]:
    paths = check.get("paths", [])
    resolved = sum(bool(one["resolved"] or one["null"]) for one in paths)
    lost = found.take("unresolved_path")
    yield _failing("paths", lost, "each is in the data", f"{resolved}/{len(paths)}")
    unnamed = found.take("unmapped_value", "/role")
    if unnamed or any("/role" in one["pointer"] for one in paths):
        yield _failing("unmapped role values", unnamed, "none")
    for code, name in (("unmapped_value", "unmapped values"), ("not_text", "texts")):
        if problems := found.take(code):
            yield _failing(name, problems, "none without a text" if code == "not_text" else "none")


def _contents(content: Document, found: _Found) -> Iterator[Gate]:
    usual = content.get("usual") or {}
    if "answers" in usual:
        both = found.take("both_sides")
        yield _failing("paths on both sides", both, "none")
        yield _training(content, found)
    for side, counts in usual.items():
        yield _constant(side, counts)
    for side, count in (content.get("numbers") or {}).items():
        yield Gate(
            name=f"lists of numbers as {side}",
            state="warn" if 2 * count >= content["records"] else "pass",
            figure=share(count, content["records"]),
            limit="under 50 %: they look like token ids",
        )


def _training(content: Document, found: _Found) -> Gate:
    none = found.take("no_training")
    records = share(content["trained_records"], content["records"])
    chars = 100 * content["trained_chars"] / max(1, content["chars"])
    few = content["trained_records"] < MIN_COVERAGE * content["records"]
    return Gate(
        name="trained on",
        state="fail" if none else "warn" if few else "pass",
        figure=f"{records} records, {chars:.1f} % of the characters",
        limit="at least one message",
    )


def _constant(side: str, counts: Document) -> Gate:
    """Whether one text is that of all records, or of nearly all of many."""
    texts, most = counts["texts"], counts["count"]
    same = texts >= _FEWEST_SAME and most == texts
    nearly = texts >= _MANY and most >= _NEARLY_ALL * texts
    return Gate(
        name=f"most frequent {side.removesuffix('s')}",
        state="warn" if same or nearly else "pass",
        figure=share(most, texts),
        limit="not the same in all",
    )


def _drifted(check: Document, found: _Found) -> Iterator[Gate]:
    if "drift" not in check:
        return
    changes = check["drift"]
    stopping = found.take("drift")
    yield Gate(
        name="shape of the data",
        state="fail" if stopping else "warn" if changes else "pass",
        figure=f"{len(changes)} change{'s' * (len(changes) != 1)}",
        limit="that of the data the mapping was made for",
        detail=_detail(_said(one) for one in stopping),
    )


# --- what a model wrote by itself


def _authored_faults(proposal: Document, found: _Found) -> Iterator[Gate]:
    if proposal["mapper"] == "llm":
        yield _failing("constant ids, times and counts", found.take("constant_meta"), "none")
        yield _failing("literal source and language", found.take("bad_literal"), "a name")


def _authored(
    proposal: Document, check: Document | None, names: tuple[str | None, ...]
) -> Iterator[Gate]:
    document = proposal["mapping"]
    if proposal["mapper"] != "llm" or not document:
        return
    yield _reserved(
        "system text",
        "the model wrote a system message of its own",
        [repr(piece[:200]) for one in authored.system_texts(document) for piece in one.pieces],
        "none of the model's own",
    )
    yield _reserved(
        "fixed text",
        "the model wrote text of its own into the records",
        [repr(piece[:200]) for one in authored.long_texts(document) for piece in one.pieces],
        f"labels of at most {authored.LABEL_WORDS} words",
    )
    yield _reserved(
        "literal source",
        "the model named a source that is neither the data set nor what was asked for",
        [repr(name[:200]) for name in authored.foreign_sources(document, names)],
        "the data set's name",
    )
    yield _reserved(
        "roles against their names",
        "the model turned roles round",
        authored.turned(document),
        "none",
    )
    if check is not None:
        yield from _left_out(check)


def _reserved(name: str, why: str, found: Sequence[str], limit: str) -> Gate:
    return Gate(
        name=name,
        state="person" if found else "pass",
        figure=str(len(found)) if found else "none",
        limit=limit,
        detail=_detail([f"{why}: {', '.join(found)}"]) if found else "",
    )


def _left_out(check: Document) -> Iterator[Gate]:
    """How much a model's conditions and dropped roles leave out."""
    failures = check["failures"]
    gone = sum(failures.get(reason, 0) for reason in SOFT_REASONS)
    tried = check["records"] + sum(failures.values()) - check.get("unreadable", 0)
    yield _at_most_half("records left out", gone, tried)
    if check.get("messages"):
        yield _at_most_half("messages left out", check["dropped"], check["messages"])


def _at_most_half(name: str, gone: int, whole: int) -> Gate:
    much = gone > MOST_LEFT_OUT * whole
    figure = share(gone, whole)
    return Gate(
        name=name,
        state="person" if much else "pass",
        figure=figure,
        limit=f"at most {MOST_LEFT_OUT:.0%}".replace("%", " %"),
        detail=f"the model's mapping leaves out more than half: {name} {figure}" if much else "",
    )
