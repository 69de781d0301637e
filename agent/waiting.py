"""A proposal that waits for a person: the folder OUT.proposal/ with the mapping and its report.

The report ends with the hashes of the mappings that ingot proposed. A mapping.json or
alternative.json with another hash is a person's work: it is neither overwritten nor ignored nor
removed.
"""

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from ingot.agent import gates
from ingot.agent.report import mapping_bytes, proposal_text
from ingot.agent.state import Order, State
from ingot.converters.commit import write_file, writing
from ingot.converters.errors import OutputError, ReviewNeeded
from ingot.converters.rows import Json

MAPPING, OTHER, REPORT = "mapping.json", "alternative.json", "report.md"
_HASH = re.compile(r"sha256 of (\S+) as proposed: ([0-9a-f]{64})")
_NOTHING: dict[str, Json] = {"version": 2, "text": None}


def proposal_folder(out: str) -> Path:
    """Where the proposal of a run into `out` lies.

    Raises:
        OutputError: `out` is no place for a result.
    """
    path = Path(out)
    if path.name in ("", ".."):
        path = path.resolve()
    if not path.name:
        raise OutputError(out, "is the root of a file system", "choose a folder inside it")
    return path.with_name(f"{path.name}.proposal")


def put_down(state: State, out: str) -> Path:
    """Write the proposal for a reviewer; files of an earlier proposal are replaced.

    Where the user gave a mapping, the one in the folder stays: it may be the very file.

    Raises:
        OutputError: the folder cannot be written.
        ReviewNeeded: a person has edited the mapping that lies there.
    """
    order, folder = Order(**{**state["order"], "out": out}), proposal_folder(out)
    check_unedited(order)
    kept = order.mapping is not None
    laid = {} if kept else {MAPPING: _bytes(proposed(state)), OTHER: _bytes(other(state))}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        hashes = _proposed(folder) if kept else _hashes(laid)
        lines = (f"sha256 of {name} as proposed: {one}\n" for name, one in hashes.items())
        report = f"{proposal_text(state)}\n{''.join(lines)}"
        write_file(folder / REPORT, report.encode())
        for name, content in laid.items():
            _lay(folder / name, content)
    return folder


def _bytes(mapping: dict[str, Json] | None) -> bytes:
    return mapping_bytes(mapping) if mapping else b""


def _hashes(laid: Mapping[str, bytes]) -> dict[str, str]:
    """The hash of every file; of the mapping also where there is none: it may be written yet."""
    return {name: _sha256(one) for name, one in laid.items() if one or name == MAPPING}


def _lay(file: Path, content: bytes) -> None:
    """The file with this content; without any no file."""
    if content:
        write_file(file, content)
    else:
        file.unlink(missing_ok=True)


def proposed(state: State) -> dict[str, Json] | None:
    """The mapping as a file may hold it; of an irrelevant source the one that says so."""
    proposal = state.get("proposal") or {}
    if proposal.get("decision") == "irrelevant":
        return _NOTHING
    return proposal.get("mapping")


def other(state: State) -> dict[str, Json] | None:
    """The rules' mapping beside a model's that differs; None where there is none."""
    opinion = state.get("opinion")
    if not opinion or opinion["agrees"]:
        return None
    mapping: dict[str, Json] | None = opinion["proposal"]["mapping"]
    return mapping


def check_unedited(order: Order) -> None:
    """See that no mapping edited by hand waits at the destination, unless the order names one.

    Raises:
        OutputError: the folder cannot be read.
        ReviewNeeded: there is one; says how to use it.
    """
    if order.out is None or order.mapping is not None:
        return
    for file in edited(proposal_folder(order.out)):
        hint = f"to use it: {command(order, mapping=str(file))}\nto drop it: delete {file}"
        raise ReviewNeeded(str(file), "was edited since it was proposed", hint)


def clear(order: Order) -> None:
    """Remove the proposal of a run that has converted; one edited by hand stays.

    Raises:
        OutputError: it cannot be removed.
    """
    if order.out is None or order.mapping is not None:
        return
    folder = proposal_folder(order.out)
    if not folder.is_dir() or edited(folder) or not _proposed(folder):
        return
    with writing(folder):
        for name in (MAPPING, OTHER, REPORT):
            (folder / name).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def edited(folder: Path) -> list[Path]:
    """The mappings there that are not as ingot proposed them.

    Raises:
        OutputError: the folder cannot be read.
    """
    with writing(folder):
        hashes = _proposed(folder)
        files = [(name, folder / name) for name in (MAPPING, OTHER)]
        return [
            file
            for name, file in files
            if file.is_file() and _sha256(file.read_bytes()) != hashes.get(name)
        ]


def _proposed(folder: Path) -> dict[str, str]:
    """The hashes of what ingot proposed there last, by file; {} if it did not."""
    report = folder / REPORT
    if not report.is_file():
        return {}
    lines = report.read_text(encoding="utf-8", errors="replace").splitlines()
    last = map(_HASH.fullmatch, lines[-2:])
    return {one[1]: one[2] for one in last if one}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def way_on(state: State, folder: Path) -> str:
    """How to go on from a waiting proposal, the simplest way first; one way a line."""
    ways = _after_rest(state) if state.get("stopped") else _after_proposal(state, folder)
    return "\n".join([f"read {folder / REPORT}", *ways])


def _after_rest(state: State) -> Iterator[str]:
    yield f"to go on: the same command, with more room: {state['stopped']['hint']}"
    yield "to go without a model: the same command with --mapper rules"


def _after_proposal(state: State, folder: Path) -> Iterator[str]:
    """The ways on from what was proposed; without a mapping of its own the rules' comes first."""
    order, mapping = Order(**state["order"]), (state.get("proposal") or {}).get("mapping")
    file = order.mapping_file or str(folder / MAPPING)
    go_on = command(order, mapping=file)
    if mapping and _approvable(state):
        yield "to approve it: the same command with --yes"
    if mapping and gates.reserved(state):
        yield f"to approve it: {go_on}"
    if other(state):
        yield f"to take the rules': {command(order, mapping=str(folder / OTHER))}"
    if mapping:
        yield f"to correct it: edit {file}, then: {go_on}"
        return
    if proposed(state):
        yield from _to_accept_nothing(state, go_on)
    yield f"write a mapping, then: {command(order, mapping='FILE')}"


def _to_accept_nothing(state: State, go_on: str) -> Iterator[str]:
    """How to say that there is nothing to convert."""
    yield f"to accept that there is nothing to convert: {go_on}"
    unsure = gates.unsure(state["proposal"] or {}, state["order"]["min_confidence"])
    if gates.reserved(state) == [unsure]:
        yield "to accept what the mapper finds: the same command without --min-confidence"


def _approvable(state: State) -> bool:
    """Whether --yes would convert the proposal."""
    undecided = state.get("review", {}).get("decision") in (None, "edit")
    held = gates.failed(state.get("problems", [])) or gates.reserved(state)
    return undecided and not held


def command(order: Order, *, mapping: str) -> str:
    """The command line of an order with a mapping that a person has approved."""
    words = ["ingot", "run", order.source, "--out", order.out or "", "--mapping", mapping]
    for option in ("tokenizer", "records", "language", "source_name", "limit"):
        value = getattr(order, option)
        if value is not None and value != getattr(Order(source=""), option):
            words += [f"--{option.removesuffix('_name')}", str(value)]
    words += ["--overwrite"] if order.overwrite else []
    words += ["--allow-drift"] if order.allow_drift else []
    return shlex.join([*words, "--yes"])
