"""What the streams of a folder become: their names."""

from pathlib import PurePosixPath
from typing import Final

from ingot.converters.errors import SourceError
from ingot.converters.monolith.converting.settings import Target
from ingot.converters.monolith.streams import Inputs

_ENDS: Final = (".snappy", ".zst", ".zstd", ".gz", ".zz", ".zlib")
_KINDS: Final = (".parquet", ".pq", ".pb", ".bin", ".data", ".examplebatch", ".example")
_COMPRESSED: Final = {"snappy": ".snappy", "zstd": ".zst", "gzip": ".gz", "zlib": ".zz"}


def output_name(name: str, target: Target, compression: str) -> str:
    """What the stream that is made of one is named: its name, with the endings of what it is."""
    path = PurePosixPath(name)
    while path.suffix.lower() in (*_ENDS, *_KINDS) and path.stem:
        path = path.with_suffix("")
    ending = ".parquet" if target == "parquet" else ".pb" + _COMPRESSED.get(compression, "")
    return str(path) + ending


def output_names(inputs: Inputs, target: Target, compression: str) -> list[str]:
    """What the streams that are made of these are named.

    Raises:
        SourceError: two of them would have one name.
    """
    names: dict[str, str] = {}
    for file in inputs.files:
        name = output_name(file.name, target, compression)
        if name in names:
            problem = f"{names[name]} and {file.name} would both become {name}"
            raise SourceError(inputs.where, problem, "convert them one by one, or rename one")
        names[name] = file.name
    return list(names)
