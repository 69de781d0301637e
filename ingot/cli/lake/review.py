"""`ingot lake review`: show what waits in a lake, and decide it."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from ingot.cli import command as o
from ingot.cli import display
from ingot.cli.command import SettingError, command_options
from ingot.cli.console import (
    is_interactive,
    note_line,
    plain_text,
    print_error,
    print_json,
    stderr_console,
    stdout_console,
)
from ingot.cli.display import print_grid
from ingot.cli.questions import can_discuss, edit_mapping, read_answer, show_proposal
from ingot.converters.errors import ExitCode, IngotError, ReviewNeeded, SourceError, count_text
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.chat.conversation import Conversation
    from ingot.agent.lake.lake_order import LakeOrder
    from ingot.agent.lake.review_queue import ShownProposal
    from ingot.agent.proposing.proposal import Proposal
    from ingot.converters.lake.catalog import SetFacts
    from ingot.converters.lake.survey import DataSet
    from ingot.converters.mapping import language

_CHOICES = {
    "y": "[y]es (approve)",
    "c": "[c]hat",
    "e": "[e]dit",
    "r": "take the [r]ules' mapping",
    "n": "[n]o (reject)",
    "s": "[s]kip",
    "q": "[q]uit",
}
Share = Literal["none", "redacted", "raw"]
_PAGE = 10  # data sets that are listed before a question
_ENDS = {"y": "approved", "n": "rejected", "s": "skipped", "q": "quit"}
_GONE = "its files were removed or belong to another data set now"
_SHOWN = ("name", "place", "status", "why", "decision", "mapper", "model", "confidence", "coverage")


@command_options
def review_lake(
    *,
    lake: Annotated[
        Path,
        Setting("The folder that was --out of `ingot lake run`.", metavar="DIR", positional=True),
    ],
    mappings: Annotated[
        Path | None,
        Setting("Folder of approved mappings.", metavar="FOLDER", default="as in the last run"),
    ] = None,
    listed: Annotated[bool, Setting("List what waits, and decide nothing.", flag="list")] = False,
    approve: Annotated[
        tuple[str, ...],
        Setting(
            "Approve the proposal of this data set. Repeatable; * and ? are wildcards.",
            metavar="NAME",
            repeatable=True,
        ),
    ] = (),
    reject: Annotated[
        tuple[str, ...],
        Setting(
            "Ignore this data set until its files change. Repeatable; * and ? are wildcards.",
            metavar="NAME",
            repeatable=True,
        ),
    ] = (),
    share_values: Annotated[
        Share | None,
        Setting(
            "Values that a model may see in a conversation (key `c`): none, redacted (no secrets), "
            "or raw.",
            choices=get_args(Share),
            default="as in the run, else redacted",
        ),
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Review the data sets of a lake that wait for you.

    Lists them, the most confident first, with one row and its record each, to approve several at
    once; then shows each that is left: mapping, coverage, rows beside their records and why a
    person has to decide. Approved mappings are files in DIR/mappings; the next ingot lake run
    converts with them.
    """
    from ingot.agent.lake.review_queue import known_order, waiting_sets

    order = known_order(lake, mappings)
    if approve or reject:
        _decide(order, approve, reject, as_json=as_json)
        return
    waiting = waiting_sets(order, rejected=listed)
    if listed or as_json or not is_interactive():
        _list_sets(order, waiting, as_json=as_json)
        if waiting and not listed:
            run = shlex.join(["ingot", "lake", "review", str(order.out)])
            hint = f"{run} --approve NAME, or on a terminal without it"
            raise ReviewNeeded(
                str(order.out), f"{len(waiting):,} data sets wait for a person", hint
            )
        return
    _walk_sets(order, waiting, share_values)


# --- without questions


def _list_sets(order: "LakeOrder", waiting: Sequence["SetFacts"], *, as_json: bool) -> None:
    from ingot.agent.lake.review_queue import proposal_file
    from ingot.converters.lake.catalog import status_text

    if as_json:
        files = {one.name: proposal_file(order, one.name) for one in waiting}
        sets = [
            {
                **{name: getattr(one, name) for name in _SHOWN},
                "proposal": str(files[one.name]) if files[one.name].is_file() else None,
            }
            for one in waiting
        ]
        print_json({"lake": str(order.out), "sets": sets})
        return
    rows = [
        (one.name, status_text(one.status), one.decision or "", one.why.split("\n")[0])
        for one in waiting
    ]
    print_grid(stdout_console(), rows)
    stdout_console().print(plain_text(f"{len(waiting):,} data sets", "bold"))


def _decide(
    order: "LakeOrder", approved: Sequence[str], rejected: Sequence[str], *, as_json: bool
) -> None:
    from ingot.agent.lake import review_queue

    known = review_queue.waiting_sets(order, rejected=True)
    to_approve, to_reject = _match_names(known, approved), _match_names(known, rejected)
    if in_both := {one.name for one in to_approve} & {one.name for one in to_reject}:
        raise SettingError(
            f"both --approve and --reject name {', '.join(sorted(in_both))}", "approve"
        )
    done: list[dict[str, str | bool]] = []
    sets = review_queue.find_data_sets(order)
    for number, facts in enumerate([*to_approve, *to_reject]):
        try:  # one that cannot be decided does not stop the others
            if facts.name not in sets:
                raise SourceError(facts.name, _GONE)
            if number < len(to_approve):
                file = _approve_checked(order, facts, sets[facts.name])
                done.append({"name": facts.name, "mapping": str(file)})
            else:
                review_queue.reject(order, facts, sets[facts.name])
                done.append({"name": facts.name, "rejected": True})
        except IngotError as error:
            done.append({"name": facts.name, "error": str(error)})
    if as_json:
        print_json({"lake": str(order.out), "sets": done})
    else:
        for one in done:
            if "error" in one:
                print_error(str(one["error"]))
                continue
            decision = f"approved: {one['mapping']}" if "mapping" in one else "rejected"
            stdout_console().print(plain_text(f"{one['name']}: {decision}"))
        _print_next_step(order, sum("mapping" in one for one in done))
    if any("error" in one for one in done):
        raise typer.Exit(ExitCode.FAILED)


def _approve_checked(order: "LakeOrder", facts: "SetFacts", data_set: "DataSet") -> Path:
    from ingot.agent.lake.review_queue import approve, check_gates, load_proposal, proposal_file

    if proposal_file(order, facts.name).is_file():
        check_gates(order, data_set, load_proposal(order, data_set))
    return approve(order, facts)


def _match_names(known: Sequence["SetFacts"], patterns: Sequence[str]) -> list["SetFacts"]:
    for pattern in patterns:
        if not any(fnmatchcase(one.name, pattern) for one in known):
            names = ", ".join(one.name for one in known[:5]) or "nothing"
            problem = f"no waiting data set is called {pattern}"
            raise typer.BadParameter(f"{problem}; waiting: {names}")
    return [one for one in known if any(fnmatchcase(one.name, pattern) for pattern in patterns)]


def _print_next_step(order: "LakeOrder", approved: int) -> None:
    if approved:
        run = shlex.join(["ingot", "lake", "run", order.root, "--out", str(order.out)])
        note_line(f"to convert what was approved: {run} ... (with the options of the last run)")


# --- on a terminal


def _walk_sets(order: "LakeOrder", waiting: Sequence["SetFacts"], share: Share | None) -> None:
    from ingot.agent.lake.review_queue import find_data_sets

    if not waiting:
        stderr_console().print("nothing waits")
        return
    note_line(f"looking at {order.root} ...")
    sets = find_data_sets(order)
    counts = dict.fromkeys(("approved", "rejected", "skipped"), 0)
    undecided = _approve_listed(order, waiting, sets) if len(waiting) > 1 else list(waiting)
    counts["approved"] = len(waiting) - len(undecided)
    for number, facts in enumerate(undecided, start=1):
        stderr_console().rule(plain_text(f"{number} of {len(undecided)}: {facts.name}", "bold"))
        done = _ask_about_set(order, facts, sets.get(facts.name), share)
        if done == "quit":
            break
        counts[done] += 1
    summary = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    note_line(summary or "nothing decided", "bold")
    _print_next_step(order, counts["approved"])


def _approve_listed(
    order: "LakeOrder", waiting: Sequence["SetFacts"], sets: Mapping[str, "DataSet"]
) -> list["SetFacts"]:
    """List what waits, a page at a time; approve the numbers typed, and return what is left."""
    undecided: list[SetFacts] = []
    for start in range(0, len(waiting), _PAGE):
        page = dict(enumerate(waiting[start : start + _PAGE], start + 1))
        for number, facts in page.items():
            _list_proposal(order, number, facts, sets.get(facts.name))
        chosen = _read_numbers(page)
        for number, facts in page.items():
            try:
                if number in chosen and facts.name in sets:
                    note_line(f"approved: {_approve_checked(order, facts, sets[facts.name])}")
                    continue
            except IngotError as error:
                print_error(str(error))
            undecided.append(facts)
    return undecided


def _list_proposal(
    order: "LakeOrder", number: int, facts: "SetFacts", data_set: "DataSet | None"
) -> None:
    """Show one data set in four lines: its name, why it waits, a row and the record of it."""
    from ingot.agent.lake.review_queue import load_proposal
    from ingot.agent.reporting.preview import preview, record_lines, row_line

    confidence = "" if facts.confidence is None else f" {facts.confidence:.3f}"
    stderr_console().print(
        plain_text(f"{number}  {facts.name}: {facts.decision or 'no'}{confidence}", "bold")
    )
    lines = [("waits", facts.why.split("\n")[0])]
    try:
        if data_set is None:
            raise SourceError(facts.name, _GONE)
        shown = load_proposal(order, data_set)
        for row, record in preview(shown.state, shown.context.readings, examples=1).examples:
            texts = (
                f"{name}: {' '.join(text.split())}" for name, text in record_lines(record, most=80)
            )
            lines += [("row", row_line(row)), ("record", " | ".join(texts))]
    except IngotError as error:
        lines.append(("problem", str(error)))
    print_grid(stderr_console(), lines)


def _read_numbers(page: Mapping[int, "SetFacts"]) -> set[int]:
    """Return the numbers of a page that a person types, as 3 or 1-4,7; `y` is all of them."""
    first, last = min(page), max(page)
    answers = f"y (all), numbers such as {first}-{last} or {first},{last}, Return for none"
    while True:
        answer = read_answer(f"Approve which of {first} to {last}? {answers}: ").lower()
        if answer in ("y", "yes"):
            return set(page)
        parts = [part.strip().partition("-") for part in answer.split(",") if part.strip()]
        if all(low.isdecimal() and (high.isdecimal() or not dash) for low, dash, high in parts):
            chosen = {
                n for n in page for low, _, high in parts if int(low) <= n <= int(high or low)
            }
            if bool(chosen) == bool(parts):
                return chosen
        note_line(f"{answer!r} is not one of these answers")


def _ask_about_set(
    order: "LakeOrder", facts: "SetFacts", data_set: "DataSet | None", share: Share | None
) -> str:
    """Return what a person decides: `approved`, `rejected`, `skipped` or `quit`."""
    from ingot.agent.lake import review_queue

    _introduce_set(facts)
    if data_set is None:
        stderr_console().print(_GONE)
        return "skipped"
    shown, own_mapping, talk = None, None, None
    try:
        shown = review_queue.load_proposal(order, data_set)
        share = share or shown.state["order"].share_values
        # What a person has put in place of the proposed mapping, or of one approved before.
        own_mapping = shown.mapping if shown.moved else None
    except IngotError as error:
        print_error(str(error))
    while shown is not None:
        try:
            second = show_proposal(shown.state, shown.context)
            display.show_drift(stderr_console(), shown.state.get("check"))
        except IngotError as error:  # the data changes while it is looked at
            print_error(str(error))
            break
        may_approve = partial(_may_approve, order, data_set, shown)
        offered = {"r": bool(second and second.mapping), "c": can_discuss(shown.state)}
        choice = _read_choice(may_approve, offered)
        try:
            if choice in _ENDS:
                return _end_review(order, facts, data_set, choice, own_mapping)
            if choice == "c":
                talk = _discuss(shown, share, talk)
                if not talk.at:  # nothing has changed
                    continue
            mapping, provenance = _changed_mapping(shown, choice, second, talk)
            shown = review_queue.try_mapping(order, data_set, mapping, provenance=provenance)
            own_mapping, talk = shown.mapping, None
        except IngotError as error:
            print_error(str(error))
    return "skipped"


def _end_review(
    order: "LakeOrder",
    facts: "SetFacts",
    data_set: "DataSet",
    choice: str,
    own_mapping: "language.Mapping | None",
) -> str:
    from ingot.agent.lake import review_queue

    if choice == "y":
        note_line(f"approved: {review_queue.approve(order, facts, own_mapping)}")
    elif choice == "n":
        review_queue.reject(order, facts, data_set)
    return _ENDS[choice]


def _changed_mapping(
    shown: "ShownProposal", choice: str, second: "Proposal | None", talk: "Conversation | None"
) -> tuple["language.Mapping", dict[str, object]]:
    """Return the mapping that a person puts in place of the one that is shown, and who made it."""
    from ingot.agent.lake.review_queue import talked_mapping
    from ingot.converters.mapping.bind import read_tree
    from ingot.converters.mapping.documents.writer import to_document

    if choice == "r" and second and second.mapping:
        return second.mapping, {"mapper": "rules", "confidence": second.confidence}
    if choice == "c" and talk:
        return talked_mapping(shown, talk)
    former = shown.mapping
    provenance = {**((former and former.provenance) or {}), "edited": True}
    edited = edit_mapping(to_document(former) if former else {"version": 2})
    return read_tree(edited), provenance


def _discuss(
    shown: "ShownProposal", share: Share | None, former: "Conversation | None"
) -> "Conversation":
    """Converse about a proposal, with the model that the environment names, if it names one."""
    from ingot.agent.model.endpoint import ModelSettings
    from ingot.cli.commands.chat import discuss_mapping
    from ingot.cli.model_options import find_model

    order = replace(shown.state["order"], mapper="auto", share_values=share or "redacted")
    shown.context.asking = find_model(ModelSettings(), order.mapper)
    return discuss_mapping(shown.state, shown.context, order, former)


def _may_approve(order: "LakeOrder", data_set: "DataSet", shown: "ShownProposal") -> bool:
    """Whether a mapping passes; if not, say which gates it fails and what can be done."""
    from ingot.agent.lake.review_queue import check_gates

    try:
        check_gates(order, data_set, shown)
    except IngotError as error:
        print_error(str(error))
        return False
    return True


def _introduce_set(facts: "SetFacts") -> None:
    files = f"{count_text(facts.files, 'file')}, {facts.bytes:,} bytes"
    note_line(f"{facts.place}: {files}, {facts.format}")
    note_line(f"waits: {facts.why}")
    if facts.card:
        card = ", ".join(f"{key} {value}" for key, value in facts.card.items() if key != "file")
        note_line(f"{facts.card['file']} says: {card}")


def _read_choice(may_approve: Callable[[], bool], offered: Mapping[str, bool]) -> str:
    """Return one of the letters; the end of the input quits."""
    allowed = {key: text for key, text in _CHOICES.items() if offered.get(key, True)}
    while True:
        answer = read_answer(f"{', '.join(allowed.values())}: ").lower()[:1] or "q"
        if answer in allowed and (answer != "y" or may_approve()):
            return answer
