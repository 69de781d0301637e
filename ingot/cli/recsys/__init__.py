"""`ingot ctr`, `ingot criteo` and `ingot monolith`: data sets for recommendation models."""
<<<<<<< HEAD
=======

import sys

from ingot.cli.command import Command, command_group
from ingot.cli.recsys.criteo_logs import inspect_criteo, preprocess_criteo, write_multihot
from ingot.cli.recsys.ctr_build import build, draft
from ingot.cli.recsys.ctr_inspect import show_ctr_stats, validate_ctr
from ingot.cli.recsys.monolith_convert import convert_monolith
from ingot.cli.recsys.monolith_inspect import show_monolith_rows, show_monolith_stats


def announce_compiling() -> None:
    """Have the terminal say that kernels are compiled, where they are."""
    from ingot.converters.kernels import compile as kernels

    if sys.stderr.isatty():
        kernels.announce_compiling(lambda text: sys.stderr.write(f"{text}\n"))


ctr = command_group(
    "Convert click and purchase logs to Parquet for training; check and inspect it.",
    callback=announce_compiling,
)
ctr.command("build", cls=Command, short_help="Convert raw rows to train/ and valid/.")(build)
ctr.command("draft", cls=Command, short_help="Propose a featuremap for a table.")(draft)
ctr.command("validate", cls=Command, short_help="Check every rule of the contract.")(validate_ctr)
ctr.command("stats", cls=Command, short_help="Show the statistics of a build.")(show_ctr_stats)

criteo = command_group(
    "Convert Criteo click logs to the arrays that DLRM trains on.", callback=announce_compiling
)
criteo.command(
    "preprocess", cls=Command, short_help="Convert raw days to arrays and vocabularies."
)(preprocess_criteo)
criteo.command("inspect", cls=Command, short_help="Show statistics of the arrays.")(inspect_criteo)
criteo.command("multihot", cls=Command, short_help="Make every id several ids, as .npz files.")(
    write_multihot
)

monolith = command_group(
    "Convert and inspect Monolith's Examples and ExampleBatches.", callback=announce_compiling
)
monolith.command(
    "convert", cls=Command, short_help="Convert Examples, ExampleBatches and Parquet tables."
)(convert_monolith)
monolith.command("cat", cls=Command, short_help="Show rows.")(show_monolith_rows)
monolith.command("stats", cls=Command, short_help="Show statistics of streams.")(
    show_monolith_stats
)
>>>>>>> words
