"""`ingot tokens inspect`, `merge` and `verify`: what one does with a finished data set."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ingot.cli import options as o

_PrefixArgument = Annotated[
    Path,
    typer.Argument(
        metavar="PREFIX", help="The data set: PREFIX.bin, PREFIX.idx.", show_default=False
    ),
]


def inspect(
    prefix: _PrefixArgument,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="T",
            help="What decodes the samples: tokenizer.json, .model or hf://REPO.  "
            "[default: the one it was built with, if that is here]",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=0, help="Documents to show.")
    ] = 3,
    document: Annotated[
        int | None,
        typer.Option("--document", metavar="N", min=0, help="Show this one.", show_default=False),
    ] = None,
    as_json: o.JsonOption = False,
) -> None:
    """Show what is in a token data set: header, counts, lengths, documents as text."""
    from ingot.cli import tokens_page
    from ingot.cli.console import output, print_json
    from ingot.converters.megatron.inspecting import inspect as look_into

    seen = look_into(_prefix(prefix), tokenizer=tokenizer, samples=samples, document=document)
    if as_json:
        print_json(seen.to_document())
    else:
        tokens_page.page(output(), seen)


def merge(
    prefixes: Annotated[
        list[Path],
        typer.Argument(metavar="PREFIX...", help="The data sets, in order.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--output-prefix", metavar="OUT", help="The data set to be made.", show_default=False
        ),
    ],
    overwrite: o.OverwriteOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Put token data sets together, in the order in which they are named.

    All of one type and tokenizer; loss masks go along if all have them.
    """
    from ingot.cli.console import output, plain, print_json
    from ingot.converters.megatron.merging import merge as put_together

    counts = put_together([_prefix(one) for one in prefixes], out, overwrite=overwrite)
    if as_json:
        print_json({"prefix": str(out), **asdict(counts)})
        return
    said = f"{counts.documents:,} documents, {counts.sequences:,} sequences"
    output().print(plain(f"{out}: {said}, {counts.tokens:,} tokens"), soft_wrap=True)


def verify(
    prefix: _PrefixArgument,
    source: Annotated[
        Path,
        typer.Option(
            "--source",
            metavar="DIR",
            help="What it was built from, as --input-dir named it.",
            show_default=False,
        ),
    ],
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer", metavar="T", help="What it was built with.", show_default=False
        ),
    ],
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Documents to make once more.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of the draw.")] = 0,
    everything: Annotated[
        bool, typer.Option("--all", help="All documents in place of a sample.")
    ] = False,
    as_json: o.JsonOption = False,
) -> None:
    """Check a token data set in itself, and random documents against the data it was made of.

    They are made once more with Hugging Face's own tokenizer and compared id by id; exit code 1 if
    one differs.
    """
    from ingot.cli import tokens_page
    from ingot.cli.console import output, print_json
    from ingot.converters.errors import ConversionError
    from ingot.converters.megatron.verifying import verify as check

    found = check(
        _prefix(prefix), source, tokenizer, samples=None if everything else samples, seed=seed
    )
    told = found.to_document()
    if as_json:
        print_json(told)
    else:
        tokens_page.verified(output(), told)
    if found.differing:
        first = found.differences[0]
        row = "" if first.row is None else f", row {first.row}"
        problem = f"document {first.document} ({first.file}{row}): {first.problem}"
        raise ConversionError(
            str(prefix), f"{found.differing} of {found.compared} documents differ; {problem}"
        )


def _prefix(given: Path) -> Path:
    """The prefix, also where the name of one of its two files was given."""
    named = given.suffix in (".bin", ".idx")
    return given.with_suffix("") if named and given.is_file() else given
