"""How a run ends: what is printed, where a waiting proposal lies, and the exit code.

`ingot convert`: the deterministic part only, with a mapping file.
`ingot run`: from raw data to records and tokens, with a review in between.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ingot.cli import options as o
from ingot.cli.model_options import ModelOptions
from ingot.cli.options import expand_options
from ingot.converters.errors import ConversionError, ReviewNeeded
from ingot.converters.typed_json import encode

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.session import Session
    from ingot.agent.state import Order, State

_WHY = {
    "rejected": "the proposal was not approved",
    "unmappable": "the data cannot be mapped without a person",
    "unusable": "no proposal that could be run",
}


def end_run(state: "State", context: "Context", *, as_json: bool, gates_hold: bool = True) -> None:
    """Print the outcome; raises what stands for an exit code other than 0."""
    from ingot.agent.reporting.preview import preview
    from ingot.cli import display
    from ingot.cli.console import print_json, stdout_console

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
    """Raise what stands for an outcome that is no success; nothing for a success."""
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
    """`stop_waiting` where no summary is printed: says also how much went to a model."""
    from ingot.cli import display

    usage = state.get("usage")
    stop_waiting(state, f"{why}; {display.usage_text(usage)}" if usage else why)


def stop_waiting(state: "State", why: str) -> NoReturn:
    """Lay the proposal down for a person."""
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


def convert(
    mapping: o.MappingArgument,
    source: o.SourceArgument,
    out: o.OutOption,
    tokenizer: o.TokenizerOption = None,
    records: o.RecordsOption = o.Records.parquet,
    language: o.LanguageOption = None,
    source_name: o.SourceNameOption = None,
    limit: o.LimitOption = None,
    dry_run: o.DryRunOption = False,
    overwrite: o.OverwriteOption = False,
    allow_drift: o.AllowDriftOption = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Accepted as in run; convert asks nobody anyway.")
    ] = False,
    as_json: o.JsonOption = False,
) -> None:
    """Convert with a mapping file: no mapper, no model, no review."""
    from ingot.agent.context import Context
    from ingot.agent.nodes.without_graph import convert_mapping
    from ingot.agent.state import Order
    from ingot.cli.console import progress_meter
    from ingot.cli.questions import load_mapping_file

    pass

    order = Order(
        source=source,
        out=str(out),
        mapper="file",
        mapping=load_mapping_file(mapping),
        mapping_file=str(mapping),
        tokenizer=tokenizer,
        records=records.value,
        language=language,
        source_name=source_name,
        limit=limit,
        overwrite=overwrite,
        yes=yes,
        dry_run=dry_run,
        allow_drift=allow_drift,
    )
    context = Context()
    with progress_meter() as context.progress:
        state = convert_mapping(order, context)
    end_run(state, context, as_json=as_json, gates_hold=False)


@expand_options
def run(
    *,
    source: o.SourceArgument,
    out: o.OutOption,
    mode: o.ModeOption = o.Mode.auto,
    mapper: o.MapperOption = o.Mapper.auto,
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--mapping",
            metavar="FILE",
            help="Use this mapping; no mapper is asked.",
            show_default=False,
        ),
    ] = None,
    tokenizer: o.TokenizerOption = None,
    records: o.RecordsOption = o.Records.parquet,
    language: o.LanguageOption = None,
    source_name: o.SourceNameOption = None,
    limit: o.LimitOption = None,
    llm: ModelOptions,
    dry_run: o.DryRunOption = False,
    overwrite: o.OverwriteOption = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Approve a proposal that passes the gates; ask nobody.")
    ] = False,
    min_confidence: Annotated[
        float,
        typer.Option(
            "--min-confidence",
            metavar="X",
            min=0.0,
            max=1.0,
            help="From 0 to 1: where the mapper is less sure, wait for review (exit 3), --yes or "
            "not.",
            show_default=False,
        ),
    ] = 0.0,
    allow_drift: o.AllowDriftOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Sample, propose a mapping, check it, have it reviewed, convert.

    Writes records/, rejected/, tokens/, mapping.json, report.md and manifest.json into DIR.
    """
    from ingot.agent.state import Order
    from ingot.cli.questions import load_mapping_file

    order = Order(
        source=source,
        out=str(out),
        mode=mode.value,
        mapper="file" if mapping else mapper.value,
        mapping=load_mapping_file(mapping) if mapping else None,
        mapping_file=str(mapping) if mapping else None,
        tokenizer=tokenizer,
        records=records.value,
        language=language,
        source_name=source_name,
        limit=limit,
        overwrite=overwrite,
        yes=yes,
        min_confidence=min_confidence,
        dry_run=dry_run,
        allow_drift=allow_drift,
        share_values=llm.share_values.value,
        prompt_tokens=llm.prompt_tokens,
    )
    context = llm.context(mapper, mapping=mapping)
    _run_session(order, context, as_json=as_json)


def _run_session(order: "Order", context: "Context", *, as_json: bool) -> None:
    from ingot.agent.reporting.proposal_folder import remove_proposal
    from ingot.agent.session import open_session, run_once
    from ingot.cli.console import progress_meter

    pass

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
    """Stop with a budget used up; the run stays where it is."""
    from ingot.agent.nodes.report import run_outcome
    from ingot.cli.console import print_json

    pass

    if as_json:
        print_json(encode(run_outcome(state)))
    stopped = state.get("stopped")
    stop_midway(state, f"a budget is used up: {stopped.why if stopped else ''}")


def _ask_for_answer(current: "Session", state: "State", *, as_json: bool) -> dict[str, object]:
    """The answer of the person at the terminal."""
    from ingot.agent.nodes.report import run_outcome
    from ingot.cli.console import is_interactive, print_json
    from ingot.cli.questions import ask_person

    pass

    if not is_interactive():
        why = "a person has to approve the proposal: there is no terminal to ask on, and no --yes"
        if as_json:
            print_json(encode(replace(run_outcome(state), status="waiting", why=why)))
        stop_midway(state, why)
    return ask_person(state, current.context)
