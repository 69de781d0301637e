"""A proposal that waits for a person: the folder OUT.proposal/ with the mapping and its report."""

import shlex
from pathlib import Path

from ingot.agent.report import mapping_bytes, proposal_text
from ingot.agent.state import Order, State
from ingot.converters.commit import write_file, writing
from ingot.converters.errors import OutputError

MAPPING, REPORT = "mapping.json", "report.md"


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

    Raises:
        OutputError: the folder cannot be written.
    """
    folder = proposal_folder(out)
    mapping = (state.get("proposal") or {}).get("mapping")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / REPORT, proposal_text(state).encode())
        if mapping:
            write_file(folder / MAPPING, mapping_bytes(mapping))
        else:
            (folder / MAPPING).unlink(missing_ok=True)
    return folder


def way_on(state: State, folder: Path) -> str:
    """The commands that go on from a waiting proposal."""
    order = Order(**state["order"])
    if not (state.get("proposal") or {}).get("mapping"):
        return f"read {folder / REPORT}, write a mapping, then: {command(order, mapping='FILE')}"
    corrected = command(order, mapping=str(folder / MAPPING))
    return f"read {folder / REPORT}, correct {folder / MAPPING} where needed, then: {corrected}"


def command(order: Order, *, mapping: str) -> str:
    """The command line of an order with a mapping that a person has approved."""
    words = ["ingot", "run", order.source, "--out", order.out or "", "--mapping", mapping]
    for option in ("tokenizer", "records", "language", "source_name", "limit"):
        value = getattr(order, option)
        if value is not None and value != getattr(Order(source=""), option):
            words += [f"--{option.removesuffix('_name')}", str(value)]
    words += ["--overwrite"] if order.overwrite else []
    return shlex.join([*words, "--yes"])
