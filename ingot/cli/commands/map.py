"""`ingot map`: propose a mapping, convert nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.agent.model.settings import ModelSettings
from ingot.agent.proposing.order import Order
from ingot.cli import display
from ingot.cli import options as o
from ingot.cli.commands.run import stop_unless_done, stop_waiting
from ingot.cli.console import (
    note_line,
    plain_text,
    print_json,
    stderr_console,
    stdout_console,
)
from ingot.cli.model_options import run_context
from ingot.cli.options import Only, check_free, command_options
from ingot.converters.convert.options import Overwrite
from ingot.converters.json_yaml import encode
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.state import Context, State


@command_options
def map_data(
    *,
    order: Annotated[
        Order,
        Only(
            "source",
            "mode",
            "mapper",
            "language",
            "source_name",
            "share_values",
            "prompt_tokens",
            dry_run=True,
        ),
    ],
    out: o.OutFile = None,
    explain: Annotated[
        bool, Setting("Show the reason of every choice, with the runner-up.")
    ] = False,
    show_prompt: Annotated[
        bool, Setting("Print exactly what a model would be sent first, and send nothing.")
    ] = False,
    pin_sample: Annotated[
        bool,
        Setting("With `out`: also store a few redacted raw rows beside it, in NAME.sample/."),
    ] = False,
    llm: ModelSettings,
    overwrite: Overwrite = False,
    as_json: o.Json = False,
) -> None:
    """Propose a mapping for review; nothing is converted."""
    from ingot.agent.session import run_once

    check_free(out, overwrite=overwrite)  # before the work, not after it
    if pin_sample:
        _check_pinnable(out, order.share_values, overwrite=overwrite)
    if show_prompt:
        _show_prompt(order, as_json=as_json)
        return
    context = run_context(llm, order.mapper)
    state = run_once(order, context)
    _write_mapping(state, out, as_json=as_json)
    if pin_sample and out is not None:
        _pin_rows(state, context, out, overwrite=overwrite)
    _explain(state, full=explain, on_stdout=out is not None and not as_json)
    stop_unless_done(state)
    _stop_at_problems(state)
    _stop_for_person(state)


def _show_prompt(order: Order, *, as_json: bool) -> None:
    """Print the messages of the first question, and their size on stderr."""
    from ingot.agent.model.budget import estimate_tokens
    from ingot.agent.proposing.llm.mapper import conversation_messages
    from ingot.agent.state import Context

    context = Context()
    source, sample = context.source(order.source), context.sample(order.source)
    messages = conversation_messages(source, sample, order.request())
    if as_json:
        print_json(messages)
    else:
        for message in messages:
            typer.echo(f"--- {message['role']} ---\n{message['content']}")
    tokens = sum(estimate_tokens(one["content"]) for one in messages)
    chars = sum(len(one["content"]) for one in messages)
    stderr_console().print(f"{chars:,} characters, about {tokens:,} tokens; nothing was sent")


def _check_pinnable(out: Path | None, share: str, *, overwrite: bool) -> None:
    from ingot.agent.review.pinning.pinned_sample import check_free, pinned_folder

    if out is None:
        raise typer.BadParameter("--pin-sample stores the rows beside the mapping: give --output")
    if share == "none":
        raise typer.BadParameter("--pin-sample stores values, --share-values none forbids it")
    check_free(pinned_folder(out), overwrite=overwrite)


def _pin_rows(state: "State", context: "Context", out: Path, *, overwrite: bool) -> None:
    """Store the sample beside the mapping, or say why there is none."""
    from ingot.agent.judging.trial import spec_of_document
    from ingot.agent.reporting.proposal_folder import proposed_mapping
    from ingot.agent.review.pinning.pin import pin_sample
    from ingot.agent.review.pinning.pinned_sample import pinned_folder
    from ingot.agent.review.pinning.sample_redaction import named_values

    document, order = proposed_mapping(state), state["order"]
    if document is None or not state.get("check"):
        why = "no mapping was proposed" if document is None else "nothing of the data is converted"
        note_line(f"no sample is pinned: {why}")
        return
    source, sample = context.source_and_sample(
        order.source, spec_of_document(document, where=str(out))
    )
    folder, share = pinned_folder(out), order.share_values
    pin_sample(
        source, sample, folder, share=share, keep=named_values(document), overwrite=overwrite
    )
    how = "as they are" if share == "raw" else "redacted"
    note_line(f"raw rows pinned, {how}: {folder}; check them before you share them")


def _write_mapping(state: "State", out: Path | None, *, as_json: bool) -> None:
    """Write the mapping to its file or to stdout."""
    from ingot.agent.reporting.proposal_folder import proposed_mapping
    from ingot.agent.reporting.report import mapping_bytes
    from ingot.converters.output.files import output_errors, write_file

    document = proposed_mapping(state)
    if out is not None and document is not None:
        with output_errors(out):
            write_file(out, mapping_bytes(document))
    if as_json:
        print_json(encode(state["outcome"]))
    elif out is None and document is not None:
        typer.echo(mapping_bytes(document), nl=False)


def _explain(state: "State", *, full: bool, on_stdout: bool) -> None:
    from ingot.agent.judging.policy import gates_of_state
    from ingot.agent.reporting.preview import path_coverage

    console = stdout_console() if on_stdout else stderr_console()
    proposal, check = state.get("proposal"), state.get("check")
    if proposal is None:
        return
    if not full:
        console.print(plain_text(display.summary_line(proposal)))
        return
    display.show_evidence(console, proposal)
    if check:
        display.show_coverage(
            console, f"{check.ok_rows}/{check.rows} rows", path_coverage(check.paths)
        )
        display.show_gates(console, gates_of_state(state))


def _stop_at_problems(state: "State") -> None:
    """Fail for a proposal that fails on the sample."""
    from ingot.converters.errors import ConversionError

    found = [str(one) for one in state.get("problems", ())]
    if found:
        where = f"the proposed mapping for {state['order'].source}"
        raise ConversionError(where, "; ".join(found), "correct it by hand, then: ingot check")


def _stop_for_person(state: "State") -> None:
    """Stop for a proposal that `run --yes` would not convert."""
    from ingot.agent.judging.policy import state_person_reasons

    if found := state_person_reasons(state):
        stop_waiting(state, "; ".join(found))
