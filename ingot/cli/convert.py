"""`ingot convert`: the deterministic part only, with a mapping file."""

from typing import Annotated

import typer

from ingot.cli import options as o


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
    from ingot.agent.direct import converted
    from ingot.agent.state import Order
    from ingot.cli.asking import mapping_file
    from ingot.cli.console import meter
    from ingot.cli.ending import end

    order = Order(
        source=source,
        out=str(out),
        mapper="file",
        mapping=mapping_file(mapping),
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
    with meter() as context.progress:
        state = converted(order, context)
    end(state, context, as_json=as_json, gates_hold=False)
