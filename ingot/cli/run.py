"""`ingot run`: from raw data to records and tokens, with a review in between."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ingot.cli import options as o
from ingot.cli.grouped import expands
from ingot.cli.model_options import ModelOptions

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.session import Session
    from ingot.agent.state import Order, State


@expands
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
    from ingot.cli.asking import mapping_file

    order = Order(
        source=source,
        out=str(out),
        mode=mode.value,
        mapper="file" if mapping else mapper.value,
        mapping=mapping_file(mapping) if mapping else None,
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
    _run(order, context, as_json=as_json)


def _run(order: "Order", context: "Context", *, as_json: bool) -> None:
    from ingot.agent.session import once, session
    from ingot.agent.waiting import clear
    from ingot.cli.console import meter
    from ingot.cli.ending import end

    if order.dry_run:
        end(once(order, context), context, as_json=as_json)
        return
    with session(order, context) as current:
        with meter() as context.progress:
            state = current.begin()
        if current.rests():
            _rest(state, as_json=as_json)
        while current.waits():
            answer = _asked(current, state, as_json=as_json)
            with meter() as context.progress:
                state = current.answer(answer)
        current.forget()
    if state["outcome"]["status"] in ("done", "already_done", "irrelevant"):
        clear(order)
    end(state, context, as_json=as_json)


def _rest(state: "State", *, as_json: bool) -> None:
    """Stop with a budget used up; the run stays where it is.

    Raises:
        ReviewNeeded: always; it says how to go on.
    """
    from ingot.agent.nodes.report import outcome
    from ingot.cli.console import print_json
    from ingot.cli.ending import stop_midway

    if as_json:
        print_json(outcome(state))
    stop_midway(state, f"a budget is used up: {state['stopped']['why']}")


def _asked(current: "Session", state: "State", *, as_json: bool) -> dict[str, object]:
    """The answer of the person at the terminal.

    Raises:
        ReviewNeeded: there is nobody to ask; the run keeps waiting.
    """
    from ingot.agent.nodes.report import outcome
    from ingot.cli.asking import ask
    from ingot.cli.console import interactive, print_json
    from ingot.cli.ending import stop_midway

    if not interactive():
        why = "a person has to approve the proposal: there is no terminal to ask on, and no --yes"
        if as_json:
            print_json({**outcome(state), "status": "waiting", "why": why})
        stop_midway(state, why)
    return ask(state, current.context)
