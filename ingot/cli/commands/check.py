"""`ingot check`: a mapping file against data, a pinned sample of it, or golden rows."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.cli import options as o
from ingot.converters.typed_json import encode

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.review.golden_rows import GoldenResult
    from ingot.agent.review.pinning.pin import PinnedSample
    from ingot.agent.state import Order, State

_SourceArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help="File, folder, glob, archive or fsspec URL of the raw data.  "
        "[default: the pinned sample beside MAPPING]",
        show_default=False,
    ),
]
_GoldenOption = Annotated[
    bool,
    typer.Option(
        "--golden", help="Also run the golden rows beside MAPPING; data is not needed then."
    ),
]


def check(
    mapping: o.MappingArgument,
    source: _SourceArgument = None,
    golden: _GoldenOption = False,
    language: o.LanguageOption = None,
    source_name: o.SourceNameOption = None,
    allow_drift: o.AllowDriftOption = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Print problems and golden rows that fail, nothing else."),
    ] = False,
    as_json: o.JsonOption = False,
) -> None:
    """Try a mapping on a sample of the data, or on its golden rows.

    Prints the gates, coverage per path, records and problems; exit code 1 if there is a problem.
    """
    from ingot.agent.state import Order
    from ingot.cli.questions import load_mapping_file

    document = load_mapping_file(mapping)
    sample = None if source else _find_pinned_sample(mapping)
    place = source or (sample.location if sample else None)
    if place is None and not golden:
        problem = f"no SOURCE, and no pinned sample beside {mapping}"
        raise typer.BadParameter(f"{problem} (ingot map --pin-sample makes one)")
    name = source_name or (sample.source_name if sample else None)
    result = _try_golden_rows(document, mapping, name) if golden else None
    order = Order(
        source=place or "",
        mapper="file",
        mapping=document,
        mapping_file=str(mapping),
        language=language,
        source_name=name,
        dry_run=True,
        allow_drift=allow_drift,
    )
    _run_checks(order if place else None, result, mapping, quiet=quiet, as_json=as_json)


def _find_pinned_sample(mapping: Path) -> "PinnedSample | None":
    from ingot.agent.review.pinning.pin import find_pinned, pinned_folder

    return find_pinned(pinned_folder(mapping))


def _try_golden_rows(document: dict[str, Any], mapping: Path, name: str | None) -> "GoldenResult":
    from ingot.agent.review.golden_rows import golden_file, run_golden

    return run_golden(document, golden_file(mapping), source_name=name or mapping.stem)


def _run_checks(
    order: "Order | None",
    golden: "GoldenResult | None",
    mapping: Path,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Check the data if there is any, show what was found, and end with what is wrong."""
    from ingot.agent.context import Context
    from ingot.agent.nodes.without_graph import try_mapping
    from ingot.converters.errors import ConversionError

    context = Context()
    state = try_mapping(order, context) if order else None
    if as_json:
        _print_document(state, golden)
    else:
        if not quiet:
            _show_check(state, context)
        _show_faults(state, golden if golden and (golden.failed or not quiet) else None)
    found = []
    if order and state and (count := len(state["problems"])):
        found.append(f"{count} problem{'s' * (count != 1)} on a sample of {order.source}")
    if golden and (count := len(golden.failed)):
        found.append(f"{count} of {golden.rows} golden rows {'fail' if count != 1 else 'fails'}")
    if found:
        raise ConversionError(str(mapping), "; ".join(found))


def _print_document(state: "State | None", golden: "GoldenResult | None") -> None:
    from ingot.agent.judging.gates import gates_of_state
    from ingot.cli.console import print_json

    told: dict[str, Any] = {}
    if state:
        told = {
            "check": encode(state["check"]),
            "gates": [encode(gate) for gate in gates_of_state(state)],
            "problems": [encode(one) for one in state["problems"]],
        }
    print_json({**told, "golden": asdict(golden)} if golden else told)


def _show_check(state: "State | None", context: "Context") -> None:
    from ingot.agent.judging.gates import gates_of_state
    from ingot.agent.reporting.preview import preview
    from ingot.cli import display
    from ingot.cli.console import stdout_console

    console = stdout_console()
    if state and state["check"]:
        display.show_preview(console, preview(state, context))
        display.show_failures(console, state["check"])
        display.show_gates(console, gates_of_state(state))
        display.show_drift(console, state["check"])


def _show_faults(state: "State | None", golden: "GoldenResult | None") -> None:
    from ingot.cli import display
    from ingot.cli.console import plain_text, stdout_console

    console = stdout_console()
    if state:
        display.show_problems(console, state["problems"])
    if golden:
        console.print(
            plain_text(f"Golden rows: {golden.rows - len(golden.failed)} of {golden.rows} pass")
        )
        for one in golden.failed:
            console.print(plain_text(f"  line {one.line}: {one.why}", "red"))
