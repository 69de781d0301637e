"""The `ingot` command: all subcommands by name. A command's module is imported when it is named."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ingot import __version__
from ingot.cli.command import HELP, Later, command_group


def _announce_compiling() -> None:
    """Have the terminal say that kernels are compiled, where they are."""
    from ingot.converters.kernels import compile as kernels

    kernels.announce_compiling(lambda text: sys.stderr.isatty() and sys.stderr.write(f"{text}\n"))


def _places_to_ask() -> Mapping[str, Any]:
    from ingot.cli.questions import places_to_ask

    return places_to_ask()


CTR = {
    "build": Later("recsys.ctr:build", "Convert raw rows to train/ and valid/."),
    "draft": Later("recsys.ctr:draft", "Propose a featuremap for a table."),
    "validate": Later("recsys.ctr:validate_ctr", "Check a result by every rule of docs/ctr.md."),
    "stats": Later("recsys.ctr:show_ctr_stats", "Show the statistics of a build."),
}
CRITEO = {
    "preprocess": Later(
        "recsys.criteo_logs:preprocess_criteo", "Convert raw days to arrays and vocabularies."
    ),
    "inspect": Later("recsys.criteo_logs:inspect_criteo", "Show statistics of the arrays."),
    "multihot": Later(
        "recsys.criteo_logs:write_multihot", "Make every id several ids, as .npz files."
    ),
}
LAKE = {
    "run": Later("lake.run:run", "Convert the new and changed data sets of a lake."),
    "review": Later("lake.review:review_lake", "Review the data sets of a lake that wait for you."),
}
MONOLITH = {
    "convert": Later(
        "recsys.monolith:convert_monolith", "Convert Examples, ExampleBatches and Parquet tables."
    ),
    "cat": Later("recsys.monolith:show_monolith_rows", "Show rows."),
    "stats": Later("recsys.monolith:show_monolith_stats", "Show statistics of streams."),
}
TOKENS = {
    "build": Later(
        "tokens.build:build_tokens",
        "Tokenize Parquet texts or ingot records into a Megatron data set (.bin/.idx).",
    ),
    "inspect": Later(
        "tokens.tools:inspect", "Show a token data set: header, counts, lengths, documents as text."
    ),
    "merge": Later("tokens.tools:merge", "Concatenate token data sets in the given order."),
    "verify": Later(
        "tokens.tools:verify",
        "Check that a token data set is consistent, and that documents match their source.",
    ),
}
COMMANDS: dict[str, Later | typer.Typer] = {
    "run": Later(
        "commands.run:run",
        "Propose a mapping from a sample, check it, ask for approval, and convert.",
        ask=_places_to_ask,
    ),
    "map": Later("commands.run:map_data", "Propose a mapping for review; nothing is converted."),
    "check": Later(
        "commands.check:check", "Try a mapping on a sample of the data, or on its golden rows."
    ),
    "chat": Later(
        "commands.chat:chat",
        "Agree on a mapping in conversation: say what should be different, look, approve, convert.",
    ),
    "convert": Later(
        "commands.run:convert", "Convert with a mapping file: no mapper, no model, no review."
    ),
    "doctor": Later(
        "commands.doctor:doctor",
        "Check the installation, the folders that ingot writes to, and a model's endpoint.",
    ),
    "export": Later(
        "commands.export:export",
        "Write a trainer's config for a finished result, and files where it needs another layout.",
    ),
    "mcp": Later(
        "commands.serving:mcp",
        "Serve ingot's tools over the Model Context Protocol; needs the extra `mcp`.",
    ),
    "merge": Later(
        "commands.merge:merge",
        "Put together what the parts of a job (`--shard I/N`) made, and commit it.",
    ),
    "review": Later(
        "commands.review:review",
        "Show what changed mappings change on a sample: pass, warn or block (exit code 1).",
    ),
    "ui": Later(
        "commands.serving:ui",
        "Onboard data sets in a browser: rows beside records, gates, approval; extra `ui`.",
    ),
    "warm": Later(
        "commands.warm:warm",
        "Compile the kernels of CTR, Criteo and Monolith and cache them; needs the extra `recsys`.",
    ),
    "ctr": command_group(
        "Convert click and purchase logs to Parquet for training; check and inspect the result.",
        CTR,
        callback=_announce_compiling,
    ),
    "criteo": command_group(
        "Convert Criteo click logs to the arrays that DLRM trains on.",
        CRITEO,
        callback=_announce_compiling,
    ),
    "lake": command_group(
        "Convert all data sets below a folder, and review those that wait.", LAKE
    ),
    "monolith": command_group(
        "Convert and inspect Monolith's Examples and ExampleBatches.",
        MONOLITH,
        callback=_announce_compiling,
    ),
    "tokens": command_group(
        "Build, inspect, merge and verify token data sets (.bin/.idx).", TOKENS
    ),
}

app = command_group(
    "Convert raw data sets to training files: one reviewed mapping, exact conversion.",
    COMMANDS,
    name="ingot",
    epilog="Exit codes: 0 done or nothing to convert, 1 a gate failed or data cannot be read or "
    "written, 2 usage or an invalid mapping file, 3 a person is needed, 4 endpoint or storage "
    "unreachable, 5 a part (--shard) is done and others remain.",
    context_settings=HELP,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ingot {__version__}")
        raise typer.Exit


_CONFIG = typer.Option(
    envvar="INGOT_CONFIG", metavar="FILE", help="File with settings (TOML). By default, none."
)
_PROFILE = typer.Option(
    envvar="INGOT_PROFILE", metavar="NAME", help="Profile of that file whose settings win."
)


@app.callback()
def ingot(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    config: Annotated[Path | None, _CONFIG] = None,
    profile: Annotated[str | None, _PROFILE] = None,
) -> None:
    """Convert raw data sets to training files: one reviewed mapping, exact conversion."""
