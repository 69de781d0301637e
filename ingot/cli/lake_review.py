"""`ingot lake review`: what waits in a lake is shown and decided; approved mappings are files."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.console import complain, interactive, notes, output, plain, print_json
from ingot.converters.errors import IngotError, ReviewNeeded
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from ingot.agent.lake.order import LakeOrder
    from ingot.agent.lake.reviewing import Laid
    from ingot.converters.lake.facts import SetFacts
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
_GONE = "its files are not there any more, or belong to another data set now"
_TOLD = ("name", "place", "status", "why", "decision", "mapper", "model", "confidence", "coverage")


def review(
    *,
    lake: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder of the lake: the --out of its runs.", show_default=False
        ),
    ],
    mappings: Annotated[
        Path | None,
        typer.Option(
            "--mappings",
            metavar="FOLDER",
            help="Where approved mappings lie.  [default: as in the last run]",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List what waits, and decide nothing.")
    ] = False,
    approve: Annotated[
        list[str] | None,
        typer.Option(
            "--approve",
            metavar="NAME",
            help="Approve the proposal of this data set; may be repeated, * and ? stand for "
            "anything.",
            show_default=False,
        ),
    ] = None,
    reject: Annotated[
        list[str] | None,
        typer.Option(
            "--reject",
            metavar="NAME",
            help="Leave this data set alone until its files change; like --approve.",
            show_default=False,
        ),
    ] = None,
    as_json: o.JsonOption = False,
) -> None:
    """Walk through the data sets of a lake that wait for a person.

    Shows mapping, coverage, rows beside their records and why nobody else may decide. Approved
    mappings are files in DIR/mappings; the next ingot lake run converts with them.
    """
    from ingot.agent.lake.reviewing import order_of, waiting

    order = order_of(lake, mappings)
    if approve or reject:
        _decide(order, approve or [], reject or [], as_json=as_json)
        return
    found = waiting(order, rejected=listed)
    if listed or as_json or not interactive():
        _list(order, found, as_json=as_json)
        if not listed:
            _stop_for_person(order, found)
        return
    _walk(order, found)


# --- without questions


def _list(order: "LakeOrder", found: Sequence["SetFacts"], *, as_json: bool) -> None:
    from ingot.cli.show import grid

    if as_json:
        print_json({"lake": str(order.out), "sets": [_told(order, one) for one in found]})
        return
    grid(output(), [(one.name, one.status, one.why.split("\n")[0]) for one in found])
    output().print(plain(f"{len(found):,} data sets", "bold"))


def _told(order: "LakeOrder", facts: "SetFacts") -> dict[str, Json]:
    from ingot.agent.lake.reviewing import proposal_of

    proposal = proposal_of(order, facts.name)
    there = str(proposal) if proposal.is_file() else None
    return {**{name: getattr(facts, name) for name in _TOLD}, "proposal": there}


def _stop_for_person(order: "LakeOrder", found: Sequence["SetFacts"]) -> None:
    """Say that nobody is there to be asked.

    Raises:
        ReviewNeeded: something waits.
    """
    if found:
        run = shlex.join(["ingot", "lake", "review", str(order.out)])
        ways = f"{run} --approve NAME, or on a terminal without it"
        raise ReviewNeeded(str(order.out), f"{len(found):,} data sets wait for a person", ways)


def _decide(
    order: "LakeOrder", approved: Sequence[str], rejected: Sequence[str], *, as_json: bool
) -> None:
    """Approve and reject by name.

    Raises:
        typer.Exit: one of them could not be.
    """
    from ingot.agent.lake import reviewing

    known = reviewing.waiting(order, rejected=True)
    chosen = [*_named(known, approved)], [*_named(known, rejected)]
    if both := {one.name for one in chosen[0]} & {one.name for one in chosen[1]}:
        raise typer.BadParameter(f"both --approve and --reject name {', '.join(sorted(both))}")
    done: list[dict[str, Json]] = []
    for facts in chosen[0]:
        _tried(facts, partial(reviewing.approve, order), done)
    sets = reviewing.data_sets(order) if chosen[1] else {}
    for facts in chosen[1]:
        _tried(facts, partial(_rejected, order, sets), done)
    _tell_done(order, done, as_json=as_json)
    if any("error" in one for one in done):
        raise typer.Exit(1)


def _rejected(order: "LakeOrder", sets: Mapping[str, "DataSet"], facts: "SetFacts") -> None:
    """Reject one.

    Raises:
        SourceError: its files are not there any more.
    """
    from ingot.agent.lake import reviewing
    from ingot.converters.errors import SourceError

    if facts.name not in sets:
        raise SourceError(facts.name, _GONE)
    reviewing.reject(order, facts, sets[facts.name])


def _named(known: Sequence["SetFacts"], patterns: Sequence[str]) -> list["SetFacts"]:
    """The data sets of these names, each once.

    Raises:
        typer.BadParameter: a name stands for none.
    """
    for pattern in patterns:
        if not any(fnmatchcase(one.name, pattern) for one in known):
            names = ", ".join(one.name for one in known[:5]) or "nothing"
            raise typer.BadParameter(
                f"no data set that waits is called {pattern}; waiting: {names}"
            )
    return [one for one in known if any(fnmatchcase(one.name, pattern) for pattern in patterns)]


def _tried(
    facts: "SetFacts",
    act: Callable[["SetFacts"], Path | None],
    done: list[dict[str, Json]],
) -> None:
    try:
        file = act(facts)
        told: dict[str, Json] = {"rejected": True} if file is None else {"mapping": str(file)}
        done.append({"name": facts.name, **told})
    except IngotError as error:  # one that cannot be decided does not stop the others
        done.append({"name": facts.name, "error": str(error)})


def _tell_done(order: "LakeOrder", done: Sequence[dict[str, Json]], *, as_json: bool) -> None:
    if as_json:
        print_json({"lake": str(order.out), "sets": list(done)})
        return
    for one in done:
        if "error" in one:
            complain(one["error"])
        else:
            said = f"approved: {one['mapping']}" if "mapping" in one else "rejected"
            output().print(plain(f"{one['name']}: {said}"))
    _tell_next(order, sum("mapping" in one for one in done))


def _tell_next(order: "LakeOrder", approved: int) -> None:
    if approved:
        run = shlex.join(["ingot", "lake", "run", order.root, "--out", str(order.out)])
        said = f"to convert what was approved: {run} ..."
        notes().print(plain(f"{said} (with the options of the last run)"))


# --- on a terminal


def _walk(order: "LakeOrder", found: Sequence["SetFacts"]) -> None:
    """Show one after the other and ask."""
    from ingot.agent.lake.reviewing import data_sets

    if not found:
        notes().print("nothing waits")
        return
    notes().print(plain(f"looking at {order.root} ..."))
    sets = data_sets(order)
    counts = dict.fromkeys(("approved", "rejected", "skipped"), 0)
    for number, facts in enumerate(found, start=1):
        notes().rule(plain(f"{number} of {len(found)}: {facts.name}", "bold"))
        done = _asked(order, facts, sets.get(facts.name))
        if done == "quit":
            break
        counts[done] += 1
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    notes().print(plain(told or "nothing decided", "bold"))
    _tell_next(order, counts["approved"])


def _asked(order: "LakeOrder", facts: "SetFacts", data_set: "DataSet | None") -> str:
    """What a person decides of one data set: `approved`, `rejected`, `skipped` or `quit`."""
    from ingot.agent.lake import reviewing
    from ingot.cli import show
    from ingot.cli.asking import shown

    _introduce(facts)
    if data_set is None:
        notes().print(_GONE)
        return "skipped"
    laid = _laid(partial(reviewing.laid, order, data_set))
    # What a person has put in place of the proposed mapping, or of one that was approved before.
    own = laid.document if laid is not None and laid.moved else None
    while laid is not None:
        try:
            second = shown(laid.state, laid.context)
            show.drift(notes(), laid.state.get("check") or {})
        except IngotError as error:  # the data changes while it is looked at
            complain(str(error))
            break
        choice = _chosen(rules=bool(second and second["mapping"]))
        if choice in _ENDS:
            if done := _ended(order, facts, data_set, choice, own):
                return done
            continue
        document, told = _other(laid, second, choice)
        new = _laid(partial(reviewing.tried, order, data_set, document, provenance=told))
        if new is not None:
            laid, own = new, new.document
    return "skipped"


def _introduce(facts: "SetFacts") -> None:
    card = ", ".join(f"{key} {value}" for key, value in facts.card.items() if key != "file")
    files = f"{facts.files:,} file{'s' * (facts.files != 1)}, {facts.bytes:,} bytes"
    lines = [
        f"{facts.place}: {files}, {facts.format}",
        f"waits: {facts.why}",
        *([f"{facts.card['file']} says: {card}"] if card else []),
    ]
    for line in lines:
        notes().print(plain(line))


def _laid(make: Callable[[], "Laid"]) -> "Laid | None":
    """A proposal to look at; None where there is none, with the reason told."""
    try:
        return make()
    except IngotError as error:
        complain(str(error))
        return None


def _chosen(*, rules: bool) -> str:
    """One of the letters; the end of input quits."""
    from ingot.cli.asking import typed

    allowed = {key: said for key, said in _CHOICES.items() if rules or key != "r"}
    while True:
        answer = typed(f"{', '.join(allowed.values())}: ").lower()[:1] or "q"
        if answer in allowed:
            return answer


def _ended(
    order: "LakeOrder",
    facts: "SetFacts",
    data_set: "DataSet",
    choice: str,
    own: dict[str, Json] | None,
) -> str | None:
    """What the choice comes to; None where it cannot be, with the reason told."""
    from ingot.agent.lake import reviewing

    try:
        if choice == "y":
            notes().print(plain(f"approved: {reviewing.approve(order, facts, own)}"))
        elif choice == "n":
            reviewing.reject(order, facts, data_set)
    except IngotError as error:
        complain(str(error))
        return None
    return _ENDS[choice]


def _other(
    laid: "Laid", second: Mapping[str, Json] | None, choice: str
) -> tuple[dict[str, Json], dict[str, Json]]:
    """The mapping that is to be in place of this one, from an editor or the rules'; where from."""
    from ingot.cli.asking import edited

    old = (laid.document or {}).get("provenance") or {}
    if choice == "r" and second:
        return second["mapping"], {"mapper": "rules", "confidence": second["confidence"]}
    answer = edited(laid.document or {"version": 2})
    mapping = answer["decisions"][0]["edited_action"]["args"]["mapping"]
    return mapping, {**old, "edited": True}
