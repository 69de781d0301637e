"""A proposal that waits for a person: the folder OUT.proposal/ with the mapping and its report.

The report ends with the hashes of the mappings that ingot proposed. A mapping.json or
alternative.json with another hash is a person's work: it is neither overwritten nor ignored nor
removed.
"""

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ingot.agent.judging import policy
from ingot.agent.privacy import Redactor
from ingot.agent.reporting.report import mapping_bytes, proposal_text
from ingot.agent.state import Order, State, Stopped
from ingot.converters.errors import OutputError, ReviewNeeded
from ingot.converters.mapping import language
from ingot.converters.output.files import is_store_url, output_errors, write_file

MAPPING, OTHER, REPORT = "mapping.json", "alternative.json", "report.md"
_HASH = re.compile(r"sha256 of (\S+) as proposed: ([0-9a-f]{64})")


def proposal_path(out: str) -> Path:
    """Return the path of the proposal of a run into `out`.

    If `out` is an object store, the proposal lies in the current folder.
    """
    path = Path(PurePosixPath(out).name if is_store_url(out) else out)
    if path.name in ("", ".."):
        path = path.resolve()
    if not path.name:
        raise OutputError(out, "is the root of a file system", "choose a folder inside it")
    return path.with_name(f"{path.name}.proposal")


def write_proposal(state: State, out: str, redactor: Redactor | None = None) -> Path:
    """Write the proposal for a reviewer; files of an earlier proposal are replaced.

    Where the user gave a mapping, the one in the folder stays: it may be the very file.
    """
    order, folder = replace(state["order"], out=out), proposal_path(out)
    check_unedited(order)
    kept = order.mapping is not None
    mappings = {MAPPING: proposed_mapping(state), OTHER: alternative_mapping(state)}
    laid = {name: mapping_bytes(one) if one else b"" for name, one in mappings.items() if not kept}
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        hashes = _proposed_hashes(folder) if kept else _hash_lines(laid)
        lines = (f"sha256 of {name} as proposed: {one}\n" for name, one in hashes.items())
        report = f"{proposal_text(state, redactor)}\n{''.join(lines)}"
        write_file(folder / REPORT, report.encode())
        for name, content in laid.items():
            if content:
                write_file(folder / name, content)
            else:
                (folder / name).unlink(missing_ok=True)
    return folder


def _hash_lines(laid: Mapping[str, bytes]) -> dict[str, str]:
    """The hash of every file; of the mapping also where there is none: it may be written yet."""
    return {name: _sha256(one) for name, one in laid.items() if one or name == MAPPING}


def proposed_mapping(state: State) -> language.Mapping | None:
    """Return the mapping as a file may hold it; of an irrelevant source the one that says so."""
    proposal = state.get("proposal")
    if proposal and proposal.decision == "irrelevant":
        return language.Mapping(outer=language.Layout())
    return proposal.mapping if proposal else None


def save_mapping(state: State, file: Path) -> Path:
    """Write the proposed mapping to a new file. Raises OutputError if there is one."""
    mapping = proposed_mapping(state)
    if mapping is None:
        raise OutputError(str(file), "there is no mapping yet")
    if file.exists():
        raise OutputError(str(file), "is there already", "choose another name")
    with output_errors(file):
        write_file(file, mapping_bytes(mapping))
    return file


def alternative_mapping(state: State) -> language.Mapping | None:
    """Return the rules' mapping beside a model's that differs; None if there is none."""
    opinion = state.get("opinion")
    return opinion.proposal.mapping if opinion and not opinion.agrees else None


def check_unedited(order: Order) -> None:
    """See that no mapping edited by hand waits at the destination, unless the order names one."""
    if order.out is None or order.mapping is not None:
        return
    for file in edited_mappings(proposal_path(order.out)):
        hint = f"to use it: {order_command(order, mapping=str(file))}\nto drop it: delete {file}"
        raise ReviewNeeded(str(file), "was edited since it was proposed", hint)


def remove_proposal(order: Order) -> None:
    """Remove the proposal of a run that has converted; one edited by hand stays."""
    if order.out is None or order.mapping is not None:
        return
    folder = proposal_path(order.out)
    if not folder.is_dir() or edited_mappings(folder) or not _proposed_hashes(folder):
        return
    delete_files(folder)


def delete_files(folder: Path) -> None:
    """Delete the files of a proposal, and its folder unless it holds others."""
    with output_errors(folder):
        for name in (MAPPING, OTHER, REPORT):
            (folder / name).unlink(missing_ok=True)
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def edited_mappings(folder: Path) -> list[Path]:
    """Return the mappings there that are not as ingot proposed them."""
    with output_errors(folder):
        hashes = _proposed_hashes(folder)
        files = [(name, folder / name) for name in (MAPPING, OTHER)]
        return [
            file
            for name, file in files
            if file.is_file() and _sha256(file.read_bytes()) != hashes.get(name)
        ]


def _proposed_hashes(folder: Path) -> dict[str, str]:
    """The hashes of what ingot proposed there last, by file; {} if it did not."""
    report = folder / REPORT
    if not report.is_file():
        return {}
    lines = report.read_text(encoding="utf-8", errors="replace").splitlines()
    last = map(_HASH.fullmatch, lines[-2:])
    return {one[1]: one[2] for one in last if one}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def next_steps(state: State, folder: Path) -> str:
    """Return how to go on from a waiting proposal, the simplest way first; one way a line."""
    stopped = state.get("stopped")
    ways = _steps_after_stop(stopped) if stopped else _steps_after_proposal(state, folder)
    return "\n".join([f"read {folder / REPORT}", *ways])


def _steps_after_stop(stopped: Stopped) -> Iterator[str]:
    yield f"to go on: the same command, with more room: {stopped.hint}"
    yield "to go without a model: the same command with --mapper rules"


def _steps_after_proposal(state: State, folder: Path) -> Iterator[str]:
    """The ways on from what was proposed; without a mapping of its own the rules' comes first."""
    order, proposal = state["order"], state.get("proposal")
    mapping = proposal.mapping if proposal else None
    file = order.mapping_file or str(folder / MAPPING)
    order = counting_order(state)
    go_on = order_command(order, mapping=file)
    if order.approve_counts and order.mapping_file:
        way = f"the same command with --approve-counts {order.approve_counts}"
        yield f"to approve exactly these counts: {way}"
        return
    if mapping and _is_approvable(state):
        yield "to approve it: the same command with --yes"
    if mapping and policy.state_person_reasons(state):
        yield f"to approve it: {go_on}"
    if alternative_mapping(state):
        yield f"to take the rules': {order_command(order, mapping=str(folder / OTHER))}"
    if mapping:
        yield f"to correct it: edit {file}, then: {go_on}"
        return
    if proposed_mapping(state):
        yield from _irrelevance_step(state, go_on)
    yield f"write a mapping, then: {order_command(order, mapping='FILE')}"


def counting_order(state: State) -> Order:
    """Return the order with the approval of what stopped its conversion, where something did."""
    halted, order = state.get("halted"), state["order"]
    if halted is None:
        return replace(order, approve_counts=None)
    counts = ",".join(f"{name}={rows}" for name, rows in halted.counts.items())
    return replace(order, approve_counts=counts)


def _irrelevance_step(state: State, go_on: str) -> Iterator[str]:
    yield f"to accept that there is nothing to convert: {go_on}"
    proposal = state["proposal"]
    unsure = policy.doubt_reason(proposal, state["order"]) if proposal else ""
    if policy.state_person_reasons(state) == [unsure]:
        yield "to accept what the mapper finds: the same command with --min-confidence 0"


def _is_approvable(state: State) -> bool:
    """Whether --yes would convert the proposal."""
    review = state.get("review")
    undecided = review is None or review.decision == "edit"
    held = policy.failed_gates(state.get("problems", ())) or policy.state_person_reasons(state)
    return undecided and not held


def order_command(order: Order, *, mapping: str) -> str:
    """Return the command line of an order with a mapping that a person has approved."""
    words = ["ingot", "run", order.source, "--out", order.out or "", "--mapping", mapping]
    for option in (
        "tokenizer",
        "records",
        "language",
        "source_name",
        "limit",
        "workers",
        "approve_counts",
    ):
        value = getattr(order, option)
        if value is not None and value != getattr(Order(source=""), option):
            words += [f"--{option.removesuffix('_name').replace('_', '-')}", str(value)]
    words += ["--overwrite"] if order.overwrite else []
    words += ["--allow-drift"] if order.allow_drift else []
    return shlex.join([*words, "--yes"])
