"""`ingot lake review`: show what waits in a lake, and decide it."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import display
from ingot.cli import options as o
from ingot.cli.console import (
    is_interactive,
    note_line,
    plain_text,
    print_error,
    print_json,
    stderr_console,
    stdout_console,
)
from ingot.cli.display import count_text, print_grid
from ingot.cli.options import command_options
from ingot.cli.questions import edit_mapping, read_answer, show_proposal
from ingot.converters.errors import IngotError, ReviewNeeded
from ingot.converters.rows import Json
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.lake.lake_order import LakeOrder
    from ingot.agent.lake.review_queue import ShownProposal
    from ingot.converters.lake.catalog import SetFacts
    from ingot.converters.lake.survey import DataSet

_CHOICES = {
    "y": "[y]es, approve",
    "e": "[e]dit",
    "r": "take the [r]ules'",
    "n": "[n]o, reject",
    "s": "[s]kip",
    "q": "[q]uit",
}
_ENDS = {"y": "approved", "n": "rejected", "s": "skipped", "q": "quit"}
_GONE = "its files were removed or belong to another data set now"
_SHOWN = ("name", "place", "status", "why", "decision", "mapper", "model", "confidence", "coverage")


@command_options
def review_lake(
    *,
    lake: Annotated[
        Path,
        Setting("Folder of the lake: the --out of its runs.", metavar="DIR", positional=True),
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
    as_json: o.Json = False,
) -> None:
    """Review the data sets of a lake that wait for you.

    Shows mapping, coverage, rows beside their records and why a person has to decide. Approved
    mappings are files in DIR/mappings; the next ingot lake run converts with them.
    """
    from ingot.agent.lake.review_queue import known_order, waiting_sets

    order = known_order(lake, mappings)
    if approve or reject:
        _decide(order, approve, reject, as_json=as_json)
        return
    found = waiting_sets(order, rejected=listed)
    if listed or as_json or not is_interactive():
        _list_sets(order, found, as_json=as_json)
        if not listed:
            _stop_for_person(order, found)
        return
    _walk_sets(order, found)


# --- without questions


def _list_sets(order: "LakeOrder", found: Sequence["SetFacts"], *, as_json: bool) -> None:
    from ingot.converters.lake.catalog import STATUS_WORDS

    if as_json:
        print_json({"lake": str(order.out), "sets": [_set_document(order, one) for one in found]})
        return
    rows = [(one.name, STATUS_WORDS[one.status], one.why.split("\n")[0]) for one in found]
    print_grid(stdout_console(), rows)
    stdout_console().print(plain_text(f"{len(found):,} data sets", "bold"))


def _set_document(order: "LakeOrder", facts: "SetFacts") -> dict[str, Json]:
    from ingot.agent.lake.review_queue import proposal_file

    proposal = proposal_file(order, facts.name)
    there = str(proposal) if proposal.is_file() else None
    return {**{name: getattr(facts, name) for name in _SHOWN}, "proposal": there}


def _stop_for_person(order: "LakeOrder", found: Sequence["SetFacts"]) -> None:
    if found:
        run = shlex.join(["ingot", "lake", "review", str(order.out)])
        ways = f"{run} --approve NAME, or on a terminal without it"
        raise ReviewNeeded(str(order.out), f"{len(found):,} data sets wait for a person", ways)


def _decide(
    order: "LakeOrder", approved: Sequence[str], rejected: Sequence[str], *, as_json: bool
) -> None:
    from ingot.agent.lake import review_queue

    known = review_queue.waiting_sets(order, rejected=True)
    chosen = [*_match_names(known, approved)], [*_match_names(known, rejected)]
    if both := {one.name for one in chosen[0]} & {one.name for one in chosen[1]}:
        raise typer.BadParameter(f"both --approve and --reject name {', '.join(sorted(both))}")
    done: list[dict[str, Json]] = []
    for facts in chosen[0]:
        _try_decision(facts, partial(review_queue.approve, order), done)
    sets = review_queue.find_data_sets(order) if chosen[1] else {}
    for facts in chosen[1]:
        _try_decision(facts, partial(_reject_set, order, sets), done)
    _print_decisions(order, done, as_json=as_json)
    if any("error" in one for one in done):
        raise typer.Exit(1)


def _reject_set(order: "LakeOrder", sets: Mapping[str, "DataSet"], facts: "SetFacts") -> None:
    from ingot.agent.lake import review_queue
    from ingot.converters.errors import SourceError

    if facts.name not in sets:
        raise SourceError(facts.name, _GONE)
    review_queue.reject(order, facts, sets[facts.name])


def _match_names(known: Sequence["SetFacts"], patterns: Sequence[str]) -> list["SetFacts"]:
    for pattern in patterns:
        if not any(fnmatchcase(one.name, pattern) for one in known):
            names = ", ".join(one.name for one in known[:5]) or "nothing"
            raise typer.BadParameter(
                f"no data set that waits is called {pattern}; waiting: {names}"
            )
    return [one for one in known if any(fnmatchcase(one.name, pattern) for pattern in patterns)]


def _try_decision(
    facts: "SetFacts",
    act: Callable[["SetFacts"], Path | None],
    done: list[dict[str, Json]],
) -> None:
    try:
        file = act(facts)
        decision: dict[str, Json] = {"rejected": True} if file is None else {"mapping": str(file)}
        done.append({"name": facts.name, **decision})
    except IngotError as error:  # one that cannot be decided does not stop the others
        done.append({"name": facts.name, "error": str(error)})


def _print_decisions(order: "LakeOrder", done: Sequence[dict[str, Json]], *, as_json: bool) -> None:
    if as_json:
        print_json({"lake": str(order.out), "sets": list(done)})
        return
    for one in done:
        if "error" in one:
            print_error(one["error"])
        else:
            decision = f"approved: {one['mapping']}" if "mapping" in one else "rejected"
            stdout_console().print(plain_text(f"{one['name']}: {decision}"))
    _print_next_step(order, sum("mapping" in one for one in done))


def _print_next_step(order: "LakeOrder", approved: int) -> None:
    if approved:
        run = shlex.join(["ingot", "lake", "run", order.root, "--out", str(order.out)])
        note_line(f"to convert what was approved: {run} ... (with the options of the last run)")


# --- on a terminal


def _walk_sets(order: "LakeOrder", found: Sequence["SetFacts"]) -> None:
    from ingot.agent.lake.review_queue import find_data_sets

    if not found:
        stderr_console().print("nothing waits")
        return
    note_line(f"looking at {order.root} ...")
    sets = find_data_sets(order)
    counts = dict.fromkeys(("approved", "rejected", "skipped"), 0)
    for number, facts in enumerate(found, start=1):
        stderr_console().rule(plain_text(f"{number} of {len(found)}: {facts.name}", "bold"))
        done = _ask_about_set(order, facts, sets.get(facts.name))
        if done == "quit":
            break
        counts[done] += 1
    summary = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    note_line(summary or "nothing decided", "bold")
    _print_next_step(order, counts["approved"])


def _ask_about_set(order: "LakeOrder", facts: "SetFacts", data_set: "DataSet | None") -> str:
    """Return what a person decides: `approved`, `rejected`, `skipped` or `quit`."""
    from ingot.agent.lake import review_queue

    _introduce_set(facts)
    if data_set is None:
        stderr_console().print(_GONE)
        return "skipped"
    shown = _load_shown(partial(review_queue.load_proposal, order, data_set))
    # What a person has put in place of the proposed mapping, or of one that was approved before.
    own = shown.document if shown is not None and shown.moved else None
    while shown is not None:
        try:
            second = show_proposal(shown.state, shown.context)
            display.show_drift(stderr_console(), shown.state.get("check"))
        except IngotError as error:  # the data changes while it is looked at
            print_error(str(error))
            break
        choice = _read_choice(rules=bool(second and second.mapping))
        if choice in _ENDS:
            if done := _carry_out_choice(order, facts, data_set, choice, own):
                return done
            continue
        if choice == "r" and second and second.mapping:
            document = second.mapping
            provenance = {"mapper": "rules", "confidence": second.confidence}
        else:
            former = shown.document or {"version": 2}
            document = edit_mapping(former)
            provenance = {**(former.get("provenance") or {}), "edited": True}
        try_it = partial(review_queue.try_mapping, order, data_set, document)
        new = _load_shown(partial(try_it, provenance=provenance))
        if new is not None:
            shown, own = new, new.document
    return "skipped"


def _introduce_set(facts: "SetFacts") -> None:
    card = ", ".join(f"{key} {value}" for key, value in facts.card.items() if key != "file")
    files = f"{count_text(facts.files, 'file')}, {facts.bytes:,} bytes"
    lines = [
        f"{facts.place}: {files}, {facts.format}",
        f"waits: {facts.why}",
        *([f"{facts.card['file']} says: {card}"] if card else []),
    ]
    for line in lines:
        note_line(line)


def _load_shown(make: Callable[[], "ShownProposal"]) -> "ShownProposal | None":
    """Return a proposal; print the reason and return None where there is none."""
    try:
        return make()
    except IngotError as error:
        print_error(str(error))
        return None


def _read_choice(*, rules: bool) -> str:
    """Return one of the letters; the end of the input quits."""
    allowed = {key: text for key, text in _CHOICES.items() if rules or key != "r"}
    while True:
        answer = read_answer(f"{', '.join(allowed.values())}: ").lower()[:1] or "q"
        if answer in allowed:
            return answer


def _carry_out_choice(
    order: "LakeOrder",
    facts: "SetFacts",
    data_set: "DataSet",
    choice: str,
    own: dict[str, Json] | None,
) -> str | None:
    """Approve or reject; print the reason and return None if that fails."""
    from ingot.agent.lake import review_queue

    try:
        if choice == "y":
            note_line(f"approved: {review_queue.approve(order, facts, own)}")
        elif choice == "n":
            review_queue.reject(order, facts, data_set)
    except IngotError as error:
        print_error(str(error))
        return None
    return _ENDS[choice]
