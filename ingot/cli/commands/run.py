"""`ingot run` and `ingot convert`, and how a run ends: summary, proposal folder, exit code."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from ingot.agent.model.settings import ModelSettings
from ingot.agent.proposing.order import Order
from ingot.cli import display
from ingot.cli import options as o
from ingot.cli.console import is_interactive, print_json, progress_meter, stdout_console
from ingot.cli.model_options import run_context
from ingot.cli.options import Only, command_options
from ingot.cli.questions import ask_person, complete_order
from ingot.converters.errors import ConversionError, ReviewNeeded
from ingot.converters.json_yaml import encode
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.session import Session
    from ingot.agent.state import State

_WHY = {
    "rejected": "the proposal was not approved",
    "unmappable": "the data cannot be mapped without a person",
    "unusable": "no proposal that could be run",
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
            display.show_preview(stdout_console(), preview(state, context))
    stop_unless_done(state)


def stop_unless_done(state: "State") -> None:
    """Raise what stands for an outcome that is not a success."""
    status, why = state["outcome"].status, state["outcome"].why
    if status == "waiting":
        stop_waiting(state, why)
    if status == "budget":
        stop_waiting(state, f"a budget is used up: {why}")
    if status in _WHY:
        stop_waiting(state, _WHY[status])
    if status == "blocked":
        where, hint = _write_down_proposal(state)
        raise ConversionError(where, f"a gate failed: {why}", hint)


def stop_midway(state: "State", why: str) -> NoReturn:
    """Stop without a summary, but say how much was sent to a model."""
    usage = state.get("usage")
    stop_waiting(state, f"{why}; {display.usage_text(usage)}" if usage else why)


def stop_waiting(state: "State", why: str) -> NoReturn:
    """Write the proposal folder and stop for a person."""
    where, hint = _write_down_proposal(state)
    raise ReviewNeeded(where, why, hint)


def _write_down_proposal(state: "State") -> tuple[str, str]:
    from ingot.agent.reporting.proposal_folder import (
        alternative_mapping,
        next_steps,
        write_proposal,
    )

    order, stopped = state["order"], state.get("stopped")
    if order.out is None or order.dry_run:  # nothing is written, so nothing can be resumed
        instead = "the rules' own proposal: --mapper rules" if alternative_mapping(state) else ""
        return order.source, stopped.hint if stopped and stopped.hint else instead
    folder = write_proposal(state, order.out)
    return f"{folder}/", next_steps(state, folder)


@command_options
def convert(
    *,
    mapping: o.MappingFile,
    order: Annotated[
        Order,
        Only(
            "source",
            "tokenizer",
            "records",
            "language",
            "source_name",
            "limit",
            "dry_run",
            "overwrite",
            "allow_drift",
            "yes",
        ),
    ],
    out: o.OutFolder,
    as_json: o.Json = False,
) -> None:
    """Convert with a mapping file: no mapper, no model, no review."""
    from ingot.agent.context import Context
    from ingot.agent.nodes.without_graph import convert_mapping

    order = complete_order(order, out=out, mapping=mapping)
    context = Context()
    with progress_meter() as context.progress:
        state = convert_mapping(order, context)
    end_run(state, context, as_json=as_json, gates_hold=False)


@command_options
def run(
    *,
    order: Order,
    out: o.OutFolder,
    mapping: Annotated[
        Path | None, Setting("Mapping file to use, instead of a proposal.", metavar="FILE")
    ] = None,
    llm: ModelSettings,
    as_json: o.Json = False,
) -> None:
    """Propose a mapping from a sample, check it, ask for approval, and convert.

    Writes records/, rejected/, tokens/, mapping.json, report.md and manifest.json into DIR.
    """
    order = complete_order(order, out=out, mapping=mapping)
    _run_session(order, run_context(llm, order.mapper), as_json=as_json)


def _run_session(order: Order, context: "Context", *, as_json: bool) -> None:
    from ingot.agent.reporting.proposal_folder import remove_proposal
    from ingot.agent.session import open_session, run_once

    if order.dry_run:
        end_run(run_once(order, context), context, as_json=as_json)
        return
    with open_session(order, context) as current:
        with progress_meter() as context.progress:
            state = current.begin()
        if current.is_at_rest():
            _stop_at_budget(state, as_json=as_json)
        while current.is_waiting():
            answer = _ask_for_answer(current, state, as_json=as_json)
            with progress_meter() as context.progress:
                state = current.answer(answer)
        current.forget()
    if state["outcome"].status in ("done", "already_done", "irrelevant"):
        remove_proposal(order)
    end_run(state, context, as_json=as_json)


def _stop_at_budget(state: "State", *, as_json: bool) -> None:
    """Stop with an exhausted budget; the run can be resumed."""
    from ingot.agent.nodes.report import run_outcome

    if as_json:
        print_json(encode(run_outcome(state)))
    stopped = state.get("stopped")
    stop_midway(state, f"a budget is used up: {stopped.why if stopped else ''}")


def _ask_for_answer(current: "Session", state: "State", *, as_json: bool) -> dict[str, object]:
    """Return the answer of the person at the terminal."""
    from ingot.agent.nodes.report import run_outcome

    if not is_interactive():
        why = "a person has to approve the proposal: there is no terminal to ask on, and no --yes"
        if as_json:
            print_json(encode(replace(run_outcome(state), status="waiting", why=why)))
        stop_midway(state, why)
    return ask_person(state, current.context)
