"""How a finished token data set looks in a terminal: its figures, its lengths, what it says."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ingot.cli.console import plain, safe
from ingot.cli.show import grid
from ingot.converters.rows import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from ingot.converters.megatron.inspecting import Eod, Inspection
    from ingot.converters.megatron.lengths import Bin, Lengths
    from ingot.converters.megatron.showing import Fragment, Sample

_BAR: Final = 40  # columns of the longest bar
_TRAINED: Final = ("⟦", "⟧")
_INDENT: Final = "  "
_SEQUENCE: Final = "│"  # where a further sequence of the document begins


def page(console: "Console", seen: "Inspection") -> None:
    """All that was found in a data set."""
    grid(console, list(_facts(seen)))
    for note in seen.notes:
        console.print(plain(f"note: {note}", "yellow"))
    lengths = [("Documents", seen.document_lengths), ("Sequences", seen.sequence_lengths)]
    for name, measured in lengths:
        if measured is not None:
            _lengths(console, f"{name} in tokens", measured)
    for sample in seen.samples:
        _sample(console, sample)
    if any(sample.head for sample in seen.samples):
        console.print(plain(_legend(seen), "dim"))


def _facts(seen: "Inspection") -> Iterator[tuple[str, str]]:
    yield "data set", seen.prefix
    yield "index", f"version {seen.version}, {seen.dtype} (code {seen.code})"
    empty = f", {seen.empty_documents:,} of them empty" if seen.empty_documents else ""
    yield "documents", f"{seen.documents:,}{empty}"
    yield "sequences", f"{seen.sequences:,}{', packed' if seen.packed else ''}"
    yield "tokens", f"{seen.tokens:,}"
    partly = f" (in the first {seen.scanned:,} tokens)" if seen.scanned < seen.tokens else ""
    if seen.eod is not None:
        yield "EOD", _eod(seen.eod) + partly
    if seen.trained is not None:
        share = seen.trained / seen.scanned if seen.scanned else 0.0
        yield "trained", f"{seen.trained:,} tokens, {share:.1%}{partly}"
    yield from _built(seen)


def _eod(eod: "Eod") -> str:
    return (
        f"id {eod.id} ends {eod.ends:,} of {eod.documents:,} documents with tokens, "
        f"{eod.inside:,} inside"
    )


def _built(seen: "Inspection") -> Iterator[tuple[str, str]]:
    """What `PREFIX.meta.json` says, as far as it says it in the form that ingot writes."""
    from ingot.converters.megatron.options import BuildOptions

    if seen.tokenizer:
        yield "tokenizer", seen.tokenizer
    if "kind" in seen.meta:
        columns = seen.meta.get("columns")
        names = f": {', '.join(map(str, columns))}" if isinstance(columns, list) else ""
        yield "made of", f"{seen.meta['kind']}{names}"
    if "files" in seen.meta:
        failed = seen.left_out.failed_files if seen.left_out else 0
        yield "files", f"{seen.meta['files']}{f', {failed:,} of them failed' if failed else ''}"
    if seen.left_out is not None:
        out = seen.left_out
        yield "left out", f"{out.rejected:,} rows rejected, {out.filtered:,} filtered by the limits"
    options = seen.meta.get("options")
    if isinstance(options, dict):
        usual = BuildOptions().to_document()
        said = [f"{key}={value}" for key, value in options.items() if value != usual.get(key)]
        yield "options", ", ".join(said) or "the defaults"


def _lengths(console: "Console", title: str, found: "Lengths") -> None:
    console.print(plain(title, "bold"))
    console.print(
        plain(
            f"  min {found.least:,}  median {found.median:,}  mean {found.mean:,.1f}  "
            f"p90 {found.p90:,}  p99 {found.p99:,}  max {found.most:,}"
        )
    )
    largest = max((one.count for one in found.bins), default=1)
    filled = {_range(one): one.count for one in found.bins if one.count}
    width = max(map(len, filled), default=0)
    for label, count in filled.items():
        bar = "█" * -(-count * _BAR // largest)
        console.print(plain(f"  {label:>{width}}  {bar} {count:,}"), soft_wrap=True)


def _range(one: "Bin") -> str:
    return f"{one.low:,}" if one.low >= one.high else f"{one.low:,}-{one.high:,}"


def _sample(console: "Console", sample: "Sample") -> None:
    said = f"Document {sample.document}: {sample.tokens:,} tokens"
    if sample.sequences > 1:
        said += f" in {sample.sequences:,} sequences"
    console.print(plain(said, "bold"))
    _indented(console, _text(sample.head))
    if sample.left_out:
        console.print(plain(f"  ... {sample.left_out:,} tokens ...", "dim"))
        _indented(console, _text(sample.tail))


def _indented(console: "Console", text: "Text") -> None:
    """A text whose lines all stand in a little, so that it cannot pose as a heading."""
    from rich.padding import Padding

    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, len(_INDENT))))
        return
    for line in text.split("\n", allow_blank=True):
        console.print(plain(_INDENT) + line, soft_wrap=True)


def _text(fragments: "tuple[Fragment, ...]") -> "Text":
    """Fragments one after another."""
    whole = plain("")
    sequence = fragments[0].sequence if fragments else 0
    for one in fragments:
        if one.sequence != sequence:
            whole.append(_SEQUENCE, style="cyan")
            sequence = one.sequence
        text = safe(one.text)
        if one.trained:
            whole.append(text.join(_TRAINED), style="green")
        else:
            whole.append(text)
    return whole


def _legend(seen: "Inspection") -> str:
    said = [f"{_TRAINED[0]}trained on{_TRAINED[1]}"] if seen.trained is not None else []
    if seen.sequence_lengths is not None:
        said.append(f"{_SEQUENCE} the next sequence")
    return ", ".join(said)


def verified(console: "Console", found: Json) -> None:
    """What `ingot tokens verify` checked, and every difference that is told."""
    whole = f"{found['documents']:,} documents, {found['sequences']:,} sequences"
    masks = ", ids and loss masks" if found["masked"] else ""
    lines = [
        ("in itself", f"{whole}, {found['tokens']:,} tokens: right"),
        ("made again", f"{found['compared']:,} documents of {found['files']:,} files{masks}"),
        ("differing", f"{found['differing']:,}"),
    ]
    if found["failed_files"]:
        failed = f"{found['failed_files']:,} files that failed in the build and gave no documents"
        lines.append(("not looked at", failed))
    grid(console, lines)
    for one in found["differences"]:
        row = "" if one["row"] is None else f", row {one['row']}"
        where = f"document {one['document']} ({one['file']}{row})"
        console.print(plain(f"  {where}: {one['problem']}", "red"))
