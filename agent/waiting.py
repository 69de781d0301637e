"""A proposal that waits for a person: the folder OUT.proposal/ with the mapping and its report.

The report ends with the hash of the mapping that ingot proposed. A mapping.json with another hash
is a person's work: it is neither overwritten nor ignored nor removed.
"""

import hashlib
import shlex
from pathlib import Path

from ingot.agent import gates
from ingot.agent.nodes.report import status
from ingot.agent.report import mapping_bytes, proposal_text
from ingot.agent.state import Order, State
from ingot.converters.commit import write_file, writing
from ingot.converters.errors import OutputError, ReviewNeeded

MAPPING, OTHER, REPORT = "mapping.json", "alternative.json", "report.md"
_PROPOSED = "sha256 of mapping.json as proposed: "


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
    mapping = (state.get("proposal") or {}).get("mapping")
    content = mapping_bytes(mapping) if mapping else b""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        proposed = _proposed(folder) if order.mapping is not None else _sha256(content)
        report = f"{proposal_text(state)}\n{_PROPOSED}{proposed}\n"
        write_file(folder / REPORT, report.encode())
        if order.mapping is not None:
            return folder
        _lay(folder / MAPPING, content)
        _lay(folder / OTHER, _alternative(state))
    return folder


def _lay(file: Path, content: bytes) -> None:
    """The file with this content; without any no file."""
    if content:
        write_file(file, content)
    else:
        file.unlink(missing_ok=True)


def _alternative(state: State) -> bytes:
    """The rules' mapping beside a model's that differs; nothing where there is none."""
    opinion = state.get("opinion")
    if not opinion or opinion["agrees"] or not opinion["proposal"]["mapping"]:
        return b""
    return mapping_bytes(opinion["proposal"]["mapping"])


def check_unedited(order: Order) -> None:
    """See that no mapping edited by hand waits at the destination, unless the order names one.

    Raises:
        OutputError: the folder cannot be read.
        ReviewNeeded: there is one; says how to use it.
    """
    if order.out is None or order.mapping is not None:
        return
    folder = proposal_folder(order.out)
    if _edited(folder):
        file = folder / MAPPING
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
    if not folder.is_dir() or _edited(folder) or not _proposed(folder):
        return
    with writing(folder):
        for name in (MAPPING, OTHER, REPORT):
            (folder / name).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def _edited(folder: Path) -> bool:
    with writing(folder):
        file = folder / MAPPING
        return file.is_file() and _sha256(file.read_bytes()) != _proposed(folder)


def _proposed(folder: Path) -> str:
    """The hash of the mapping that ingot proposed there last, "" if it did not."""
    report = folder / REPORT
    if not report.is_file():
        return ""
    last = report.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
    return last.removeprefix(_PROPOSED) if last.startswith(_PROPOSED) else ""


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def way_on(state: State, folder: Path) -> str:
    """How to go on from a waiting proposal, the simplest way first; one way a line."""
    order = Order(**state["order"])
    lines = [f"read {folder / REPORT}"]
    if stopped := state.get("stopped"):
        lines.append(f"to go on: the same command, with more room: {stopped['hint']}")
        lines.append("to go without a model: the same command with --mapper rules")
        return "\n".join(lines)
    if not (state.get("proposal") or {}).get("mapping"):
        if status(state) == "waiting":
            lines.append("if nothing is to be converted: the same command without --min-confidence")
        lines.append(f"write a mapping, then: {command(order, mapping='FILE')}")
        return "\n".join(lines)
    if _approvable(state):
        lines.append("to approve it: the same command with --yes")
    file = order.mapping_file or str(folder / MAPPING)
    go_on = command(order, mapping=file)
    if gates.reserved(state):
        lines.append(f"to approve it: {go_on}")
    if _alternative(state):
        lines.append(f"to take the rules': {command(order, mapping=str(folder / OTHER))}")
    lines.append(f"to correct it: edit {file}, then: {go_on}")
    return "\n".join(lines)


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
    return shlex.join([*words, "--yes"])
