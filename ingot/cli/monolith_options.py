"""The options of the commands that look at streams of Monolith."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ingot.converters.monolith.looking.opening import Said


class From(StrEnum):
    """What is read."""

    example = "example"
    examplebatch = "examplebatch"
    instance = "instance"
    parquet = "parquet"


class Compression(StrEnum):
    """What streams may be compressed with."""

    none = "none"
    snappy = "snappy"
    zstd = "zstd"
    gzip = "gzip"
    zlib = "zlib"


WhereArgument = Annotated[
    str,
    typer.Argument(
        metavar="IN",
        help="A file, a folder, a glob or an fsspec URL; - is standard input.",
        show_default=False,
    ),
]
FromOption = Annotated[
    From | None,
    typer.Option("--from", help="What is read.", show_default="told by its content"),
]
FramingOption = Annotated[
    str | None,
    typer.Option(
        "--framing",
        metavar="PARTS",
        help="What stands before each message: sort_id, kafka_dump, kafka_dump_prefix, with commas "
        "between; lagrangex_header; none.",
        show_default="told by the content",
    ),
]
CompressionOption = Annotated[
    Compression | None,
    typer.Option(
        "--compression",
        help="Of the files.",
        show_default="told by name and content",
    ),
]


def said(kind: From | None, framing: str | None, compression: Compression | None) -> "Said":
    """What the options say of streams; a framing that there is not is a usage error."""
    from ingot.converters.errors import ConversionError
    from ingot.converters.monolith.framing.framing import Framing
    from ingot.converters.monolith.looking.opening import Said

    try:
        known = Framing.parse(framing) if framing is not None else None
    except ConversionError as error:
        raise typer.BadParameter(f"--framing: {error.problem} ({error.hint})") from error
    return Said(
        kind=None if kind is None else kind.value,
        framing=known,
        compression=None if compression is None else compression.value,
    )
