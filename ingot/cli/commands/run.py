"""`ingot run`, `convert` and `map`, and how a run ends: summary, proposal folder, exit code."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ingot.agent.model.endpoint import ModelSettings
from ingot.agent.proposing.order import Order
from ingot.cli import command as o
from ingot.cli import display
from ingot.cli.command import Only, SettingError, check_free, command_options, run_job
from ingot.cli.console import (
    JobOptions,
    is_interactive,
    note_line,
    print_json,
    progress_meter,
    stderr_console,
    stdout_console,
)
from ingot.cli.model_options import run_context
from ingot.cli.questions import ask_person, complete_order
from ingot.converters.convert.options import Overwrite
from ingot.converters.errors import ConversionError, ReviewNeeded
from ingot.converters.json_yaml import encode
from ingot.converters.output.sharding import Shard
from ingot.converters.rows import Safe
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.state import Outcome, RunStatus, State

_NO_TERMINAL = Safe("a person must approve the proposal, but there is no terminal and no --yes")
# Why a run stops for a person, by how it ended.
_STOPS: "dict[RunStatus, str]" = {
    "waiting": "{why}",
    "budget": "a budget is used up: {why}",
    "rejected": "the proposal was not approved",
    "unmappable": "the data cannot be mapped without a person",
    "unusable": "no proposal that could be run",
}

# What data needs to be converted in the mode that was asked for.
_NEEDED = {
    "sft": (
        "it needs a question and its answer in each row, or a list of messages with their "
        "speakers: name the fields in ingot chat, or use --mode auto"
    ),
    "pt": "it needs fields with running text: name them in ingot chat, or use --mode auto",
}


def end_run(state: "State", context: "Context", *, as_json: bool, gates_hold: bool = True) -> None:
    """Print the outcome; raise what stands for an exit code other than 0."""
    from ingot.agent.reporting.preview import preview

    outcome = state["outcome"]
    if as_json:
        print_json(encode(outcome))
    else:
        display.show_outcome(stdout_console(), outcome)
        harmless = not gates_hold or outcome.status in ("done", "already_done")
        display.show_problems(stdout_console(), outcome.problems, harmless=harmless)
        if outcome.status == "dry_run" and outcome.check:
            display.show_preview(stdout_console(), preview(state, context.readings))
    stop_unless_done(state, context)


def stop_unless_done(state: "State", context: "Context") -> None:
    """Raise what stands for an outcome that is not a success."""
    from ingot.agent.proposing.proposal import PERSONS

    status, why = state["outcome"].status, state["outcome"].why
    if status in _STOPS:
        stop_waiting(state, _STOPS[status].format(why=why), context)
    order, accepted = state["order"], state["outcome"].mapper in PERSONS
    if status == "irrelevant" and order.mode in _NEEDED and not accepted:
        problem = f"nothing to convert, although --mode {order.mode} asks for it"
        note_line(f"note: {problem}: {_NEEDED[order.mode]}", "yellow")
    if status == "blocked":
        file, hint = _write_down_proposal(state, context)
        raise ConversionError(file, f"a gate failed: {why}", hint)


def _stop_midway(
    outcome: "Outcome", state: "State", context: "Context", *, as_json: bool
) -> NoReturn:
    """Stop without a summary, but say how much was sent to a model."""
    if as_json:
        print_json(encode(outcome))
    usage, why = state.get("usage"), _STOPS[outcome.status].format(why=outcome.why)
    stop_waiting(state, f"{why}; {display.usage_text(usage)}" if usage else why, context)


def stop_waiting(state: "State", why: str, context: "Context") -> NoReturn:
    """Write the proposal folder and stop for a person."""
    file, hint = _write_down_proposal(state, context)
    raise ReviewNeeded(file, why, hint)


def _write_down_proposal(state: "State", context: "Context") -> tuple[str, str]:
    from ingot.agent.reporting.proposal_folder import (
        alternative_mapping,
        next_steps,
        write_proposal,
    )

    order, stopped = state["order"], state.get("stopped")
    if order.out is None or order.dry_run:  # nothing is written, so nothing can be resumed
        instead = "the rules' own proposal: --mapper rules" if alternative_mapping(state) else ""
        return order.source, stopped.hint if stopped and stopped.hint else instead
    folder = write_proposal(state, order.out, context.open(order).redactor)
    return f"{folder}/", next_steps(state, folder)


@command_options
def convert(
    *,
    mapping: o.MappingFile,
    order: Annotated[
        Order,
        Only(
            "source format query tokenizer records language source_name "
            "limit dry_run overwrite workers allow_drift approve_counts yes runner ray_address"
        ),
    ],
    out: o.OutPlace,
    shard: Shard = None,
    watching: JobOptions,
    as_json: o.Json = False,
) -> None:
    """Convert with a mapping file: no mapper, no model, no review."""
    from ingot.agent.context import Context
    from ingot.agent.session import convert_mapping

    order = replace(complete_order(order, out=out, mapping=mapping), shard=shard)
    context = Context()
    with run_job(watching, "convert", as_json=as_json) as context.progress:
        state = convert_mapping(order, context)
    end_run(state, context, as_json=as_json, gates_hold=False)


@command_options
def run(
    *,
    order: Order,
    out: o.OutPlace,
    mapping: Annotated[
        Path | None, Setting("Mapping file to use, instead of a proposal.", metavar="FILE")
    ] = None,
    llm: ModelSettings,
    watching: JobOptions,
    as_json: o.Json = False,
) -> None:
    """Propose a mapping from a sample, check it, ask for approval, and convert.

    Writes records/, rejected/, tokens/, mapping.json, report.md and manifest.json into DIR.
    Without SOURCE, a terminal lists the data in this folder, and asks for both.
    """
    order = complete_order(order, out=out, mapping=mapping)
    with watching.open("run"):
        _run_session(order, run_context(llm, order.mapper), as_json=as_json)


def _run_session(order: Order, context: "Context", *, as_json: bool) -> None:
    from ingot.agent.reporting.proposal_folder import remove_proposal
    from ingot.agent.reporting.report import run_outcome
    from ingot.agent.session import open_session, run_once
    from ingot.cli.commands.chat import discuss_mapping

    if order.dry_run:
        end_run(run_once(order, context), context, as_json=as_json)
        return
    with open_session(order, context) as current:
        with progress_meter() as context.progress:
            state = current.begin()
        if current.is_at_rest():  # a budget is exhausted; the run can be resumed
            _stop_midway(run_outcome(state), state, context, as_json=as_json)
        while current.is_waiting():
            if not is_interactive():
                waiting = replace(run_outcome(state), status="waiting", why=_NO_TERMINAL)
                _stop_midway(waiting, state, context, as_json=as_json)
            answer, changed = ask_person(state, context, discuss_mapping)
            with progress_meter() as context.progress:
                state = current.answer(answer, changed)
        current.forget()
    if state["outcome"].status in ("done", "already_done", "irrelevant"):
        remove_proposal(order)
    end_run(state, context, as_json=as_json)


@command_options
def map_data(
    *,
    order: Annotated[
        Order,
        Only(
            "source format query mode mapper language source_name share_values prompt_tokens "
            "min_confidence",
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
        bool, Setting("With `out`: also store a few redacted raw rows beside it, in NAME.sample/.")
    ] = False,
    llm: ModelSettings,
    overwrite: Overwrite = False,
    as_json: o.Json = False,
) -> None:
    """Propose a mapping for review; nothing is converted."""
    from ingot.agent.judging.policy import failed_gates, state_person_reasons
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
    _explain(state, context, full=explain, on_stdout=out is not None and not as_json)
    stop_unless_done(state, context)
    if reasons := failed_gates(state.get("problems", ())):  # it fails on the sample
        location = f"the proposed mapping for {state['order'].source}"
        raise ConversionError(location, "; ".join(reasons), "correct it by hand, then: ingot check")
    if reasons := state_person_reasons(state):  # `run --yes` would not convert it
        stop_waiting(state, "; ".join(reasons), context)


def _show_prompt(order: Order, *, as_json: bool) -> None:
    from ingot.agent.context import Context
    from ingot.agent.model.budget import estimate_tokens
    from ingot.agent.proposing.llm.mapper import conversation_messages
    from ingot.agent.steps.course import Run, advance

    context = Context()
    run = Run(state={"order": order}, context=context, step="discover")
    if proposal := advance(run, until="sample").get("proposal"):
        note_line(f"no model would be asked: {proposal.decision}: {proposal.reason}")
        return
    data = context.open(order)
    messages = conversation_messages(data.source, data.sample, order.request())
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
        raise SettingError(
            "--pin-sample stores the rows beside the mapping: give --output", "pin_sample"
        )
    if share == "none":
        raise SettingError(
            "--pin-sample stores values, --share-values none forbids it", "pin_sample"
        )
    check_free(pinned_folder(out), overwrite=overwrite)


def _pin_rows(state: "State", context: "Context", out: Path, *, overwrite: bool) -> None:
    """Store the sample beside the mapping, or say why there is none."""
    from ingot.agent.privacy import NOT_SHOWN
    from ingot.agent.reporting.proposal_folder import proposed_mapping
    from ingot.agent.review.pinning.pin import pin_beside

    mapping, order = proposed_mapping(state), state["order"]
    if mapping is None or not state.get("check"):
        why = "no mapping was proposed" if mapping is None else "nothing of the data is converted"
        note_line(f"no sample is pinned: {why}")
        return
    folder = pin_beside(out, mapping, context.readings, order, overwrite=overwrite)
    if folder is None:
        note_line(f"no sample is pinned {NOT_SHOWN}")
        return
    form = "as they are" if order.share_values == "raw" else "redacted"
    note_line(f"raw rows pinned, {form}: {folder}; check them before you share them")


def _write_mapping(state: "State", out: Path | None, *, as_json: bool) -> None:
    from ingot.agent.reporting.proposal_folder import proposed_mapping
    from ingot.agent.reporting.report import mapping_bytes

    mapping = proposed_mapping(state)
    if out is not None and mapping is not None:
        display.write_output(out, mapping_bytes(mapping))
    if as_json:
        print_json(encode(state["outcome"]))
    elif out is None and mapping is not None:
        typer.echo(mapping_bytes(mapping), nl=False)


def _explain(state: "State", context: "Context", *, full: bool, on_stdout: bool) -> None:
    from ingot.agent.judging.policy import gates_of_state
    from ingot.agent.reporting.preview import path_reach

    console = stdout_console() if on_stdout else stderr_console()
    proposal, check = state.get("proposal"), state.get("check")
    if proposal and not full:
        display.show_summary(console, proposal, check)
    elif proposal:
        display.show_evidence(console, proposal, check)
        if check:
            share = f"{check.ok_rows}/{check.rows} rows"
            redactor = context.open(state["order"]).redactor
            display.show_sample(console, share, path_reach(check.paths, redactor))
            display.show_gates(console, gates_of_state(state))
