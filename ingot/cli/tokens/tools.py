"""`ingot tokens inspect`, `merge` and `verify`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from ingot.cli import command as o
from ingot.cli.command import command_options
from ingot.cli.console import plain_text, print_json, print_line, safe_text, stdout_console
from ingot.cli.display import print_grid, show_notes
from ingot.converters.convert.options import Overwrite
from ingot.converters.output.figures import list_facts
from ingot.converters.output.files import is_store_url
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ingot.converters.megatron.inspect.inspection import (
        Inspection,
        LengthFigures,
        TextFragment,
    )
    from ingot.converters.megatron.inspect.verification import DocumentDifference, Verification

_BAR: Final = 40  # columns of the longest bar
_TRAINED: Final = ("⟦", "⟧")
_INDENT: Final = "  "
_SEQUENCE: Final = "│"  # where a further sequence of the document begins


def show_data_set(console: "Console", seen: "Inspection") -> None:
    """Show everything that was found in a data set."""
    from ingot.converters.megatron.inspect.inspection import data_set_facts

    print_grid(console, data_set_facts(seen))
    show_notes(console, seen.notes)
    lengths = [("Documents", seen.document_lengths), ("Sequences", seen.sequence_lengths)]
    for name, measured in lengths:
        if measured is not None:
            _show_lengths(console, f"{name} in tokens", measured)
    for sample in seen.samples:
        text = f"Document {sample.document}: {sample.tokens:,} tokens"
        if sample.sequences > 1:
            text += f" in {sample.sequences:,} sequences"
        console.print(plain_text(text, "bold"))
        _print_indented(console, _styled_text(sample.head))
        if sample.left_out:
            console.print(plain_text(f"  ... {sample.left_out:,} tokens ...", "dim"))
            _print_indented(console, _styled_text(sample.tail))
    if any(sample.head for sample in seen.samples):
        legend = [f"{_TRAINED[0]}trained on{_TRAINED[1]}"] if seen.trained is not None else []
        legend += [f"{_SEQUENCE} the next sequence"] if seen.sequence_lengths is not None else []
        console.print(plain_text(", ".join(legend), "dim"))


def _show_lengths(console: "Console", title: str, figures: "LengthFigures") -> None:
    console.print(plain_text(title, "bold"))
    console.print(
        plain_text(
            f"  min {figures.least:,}  median {figures.median:,}  mean {figures.mean:,.1f}  "
            f"p90 {figures.p90:,}  p99 {figures.p99:,}  max {figures.most:,}"
        )
    )
    largest = max((one.count for one in figures.bins), default=1)
    filled = {
        f"{one.low:,}" + (f"-{one.high:,}" if one.low < one.high else ""): one.count
        for one in figures.bins
        if one.count
    }
    width = max(map(len, filled), default=0)
    for label, count in filled.items():
        bar = "█" * -(-count * _BAR // largest)
        console.print(plain_text(f"  {label:>{width}}  {bar} {count:,}"), soft_wrap=True)


def _print_indented(console: "Console", text: "Text") -> None:
    """Print a text indented, so that it cannot pose as a heading."""
    from rich.padding import Padding

    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, len(_INDENT))))
        return
    for line in text.split("\n", allow_blank=True):
        console.print(plain_text(_INDENT) + line, soft_wrap=True)


def _styled_text(fragments: "tuple[TextFragment, ...]") -> "Text":
    styled = plain_text("")
    sequence = fragments[0].sequence if fragments else 0
    for one in fragments:
        if one.sequence != sequence:
            styled.append(_SEQUENCE, style="cyan")
            sequence = one.sequence
        text = safe_text(one.text)
        if one.trained:
            styled.append(text.join(_TRAINED), style="green")
        else:
            styled.append(text)
    return styled


def show_verification(console: "Console", verification: "Verification") -> None:
    """Show what was verified, and every difference that is listed."""
    size_text = f"{verification.documents:,} documents, {verification.sequences:,} sequences"
    masks = ", ids and loss masks" if verification.masked else ""
    failed = f"{verification.failed_files:,} files that failed in the build and gave no documents"
    facts = {
        "consistency": f"{size_text}, {verification.tokens:,} tokens: correct",
        "tokenized again": (
            f"{verification.compared:,} documents of {verification.files:,} files{masks}"
        ),
        "different": f"{verification.differing:,}",
        "not checked": failed if verification.failed_files else "",
    }
    print_grid(console, list_facts(facts))
    for one in verification.differences:
        console.print(plain_text(f"  {_difference_text(one)}", "red"))


def _difference_text(difference: "DocumentDifference") -> str:
    row = "" if difference.row is None else f", row {difference.row}"
    return f"document {difference.document} ({difference.file}{row}): {difference.problem}"


_Prefix = Annotated[
    str,
    Setting(
        "Data set: PREFIX.bin, PREFIX.idx; or the URL of one in an object store.",
        metavar="PREFIX|URL",
        positional=True,
    ),
]


@command_options
def inspect(
    prefix: _Prefix,
    tokenizer: Annotated[
        str | None,
        Setting(
            "Tokenizer that decodes the samples: tokenizer.json, .model or hf://REPO.",
            metavar="T",
            default="the one it was built with, if found",
        ),
    ] = None,
    samples: Annotated[int, Setting("Number of documents to show.", metavar="N", minimum=0)] = 3,
    document: Annotated[
        int | None, Setting("Show only document N, counted from 0.", metavar="N", minimum=0)
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Show a token data set: header, counts, lengths, documents as text."""
    from ingot.converters.megatron.inspect.inspection import inspect_data_set

    seen = inspect_data_set(
        _data_set_prefix(prefix), tokenizer=tokenizer, samples=samples, document=document
    )
    if as_json:
        print_json(asdict(seen))
    else:
        show_data_set(stdout_console(), seen)


@command_options
def merge(
    prefixes: Annotated[
        tuple[str, ...],
        Setting("Data sets, in order.", metavar="PREFIX...", positional=True, repeatable=True),
    ],
    out: Annotated[
        Path, Setting("Prefix of the new data set.", metavar="OUT", flag="output-prefix")
    ],
    overwrite: Overwrite = False,
    as_json: o.Json = False,
) -> None:
    """Concatenate token data sets in the given order.

    They must have the same type and tokenizer. Loss masks are kept if all data sets have them.
    """
    from ingot.converters.megatron.inspect.merge import merge_data_sets

    counts = merge_data_sets([_data_set_prefix(one) for one in prefixes], out, overwrite=overwrite)
    if as_json:
        print_json({"prefix": str(out), **asdict(counts)})
        return
    amounts = f"{counts.documents:,} documents, {counts.sequences:,} sequences"
    print_line(f"{out}: {amounts}, {counts.tokens:,} tokens")


@command_options
def verify(
    prefix: _Prefix,
    source: Annotated[
        Path, Setting("Folder that it was built from: the --input-dir of its build.", metavar="DIR")
    ],
    tokenizer: Annotated[str, Setting("Tokenizer that it was built with.", metavar="T")],
    samples: Annotated[
        int, Setting("Number of documents to tokenize again.", metavar="N", minimum=1)
    ] = 200,
    seed: Annotated[int, Setting("Seed for sampling documents.", metavar="N", minimum=0)] = 0,
    everything: Annotated[
        bool, Setting("Check all documents instead of a sample.", flag="all")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Check that a token data set is consistent, and that documents match their source.

    Sampled documents are tokenized again with Hugging Face's own tokenizer and compared id by id.
    The exit code is 1 if one differs.
    """
    from ingot.converters.errors import ConversionError
    from ingot.converters.megatron.inspect.verification import verify_data_set

    verification = verify_data_set(
        _data_set_prefix(prefix),
        source,
        tokenizer,
        samples=None if everything else samples,
        seed=seed,
    )
    if as_json:
        print_json(asdict(verification))
    else:
        show_verification(stdout_console(), verification)
    if verification.differing:
        count = f"{verification.differing} of {verification.compared} documents differ"
        first = _difference_text(verification.differences[0])
        raise ConversionError(prefix, f"{count}; {first}")


def _data_set_prefix(location: str) -> Path:
    """Return the prefix, also where one of its two files was named, or the URL of a store."""
    if is_store_url(location):
        from ingot.converters.megatron.inspect.merge import local_data_set

        return local_data_set(location)
    path = Path(location)
    is_file = path.suffix in (".bin", ".idx") and path.is_file()
    return path.with_suffix("") if is_file else path
