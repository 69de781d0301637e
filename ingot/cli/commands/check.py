"""`ingot check`: try a mapping file on data, a pinned sample of it, or golden rows."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingot.agent.proposing.order import Order
from ingot.cli import command as o
from ingot.cli import display
from ingot.cli.command import Only, command_options
from ingot.cli.console import plain_text, print_json, stdout_console
from ingot.cli.questions import complete_order
from ingot.converters.errors import count_text
from ingot.converters.json_yaml import encode
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.review.golden_rows import GoldenResult
    from ingot.agent.state import State


@command_options
def check(
    *,
    mapping: o.MappingFile,
    source: Annotated[
        str | None,
        Setting(
            "File, folder, glob, archive or fsspec URL of the raw data; TABLE@VERSION: a version "
            "of a table.",
            metavar="SOURCE",
            positional=True,
            default="the pinned sample beside MAPPING",
        ),
    ] = None,
    golden: Annotated[
        bool, Setting("Also run the golden rows beside MAPPING; then no data is needed.")
    ] = False,
    order: Annotated[
        Order, Only("format query language source_name allow_drift", source="", dry_run=True)
    ],
    quiet: Annotated[bool, Setting("Print only problems and golden rows that fail.")] = False,
    as_json: o.Json = False,
) -> None:
    """Try a mapping on a sample of the data, or on its golden rows.

    Prints the gates, the rows of each path, records and problems. The exit code is 1 if there is a
    problem.
    """
    from ingot.agent.review.pinning.pinned_sample import find_pinned, pinned_folder

    order = complete_order(replace(order, source=source or ""), mapping=mapping)
    sample = None if source else find_pinned(pinned_folder(mapping))
    location = source or (sample.location if sample else None)
    if sample and order.mapping:
        order = replace(order, mapping=sample.fit_mapping(order.mapping))
    if location is None and not golden:
        problem = f"no SOURCE, and no pinned sample beside {mapping}"
        raise typer.BadParameter(f"{problem} (ingot map --pin-sample makes one)")
    name = order.source_name or (sample.source_name if sample else None)
    result = None
    if golden and order.mapping:
        from ingot.agent.review.golden_rows import golden_file, run_golden

        file = golden_file(mapping)
        result = run_golden(order.mapping, file, source_name=name or mapping.stem)
    order = replace(order, source=location or "", source_name=name)
    _run_checks(order if location else None, result, mapping, quiet=quiet, as_json=as_json)


def _run_checks(
    order: Order | None, golden: "GoldenResult | None", mapping: Path, *, quiet: bool, as_json: bool
) -> None:
    from ingot.agent.context import Context
    from ingot.agent.judging.policy import gates_of_state
    from ingot.agent.judging.problem_words import told_problems
    from ingot.agent.session import try_mapping
    from ingot.converters.errors import ConversionError

    context, problems = Context(), []
    state = try_mapping(order, context).state if order else None
    if as_json:
        document: dict[str, Any] = {}
        if state:
            document = {
                "check": encode(state["check"]),
                "gates": [encode(gate) for gate in gates_of_state(state)],
                "problems": [encode(one) for one in state["problems"]],
            }
        print_json({**document, "golden": asdict(golden)} if golden else document)
    else:
        _show_checks(state, golden, context, quiet=quiet)
    if order and state and (count := len(told_problems(state["problems"]))):
        problems.append(f"{count_text(count, 'problem')} on a sample of {order.source}")
    if golden and (count := len(golden.failed)):
        problems.append(f"{count} of {golden.rows} golden rows {'fail' if count != 1 else 'fails'}")
    if problems:
        raise ConversionError(str(mapping), "; ".join(problems))


def _show_checks(
    state: "State | None", golden: "GoldenResult | None", context: "Context", *, quiet: bool
) -> None:
    from ingot.agent.judging.policy import gates_of_state
    from ingot.agent.reporting.preview import preview

    console = stdout_console()
    if state and state["check"] and not quiet:
        display.show_preview(console, preview(state, context.readings))
        display.show_failures(console, state["check"])
        display.show_gates(console, gates_of_state(state))
        display.show_drift(console, state["check"])
    if state:
        display.show_problems(console, state["problems"])
    if golden and (golden.failed or not quiet):
        passed = golden.rows - len(golden.failed)
        console.print(plain_text(f"Golden rows: {passed} of {golden.rows} pass"))
        for one in golden.failed:
            console.print(plain_text(f"  line {one.line}: {one.why}", "red"))
