"""Where the rows of a JSON file that is one object may lie, ranked."""

from collections.abc import Iterator, Sequence

from ingot.converters.paths import join_path
from ingot.converters.readers.compression import decompressed
from ingot.converters.readers.facts import RootCandidate, SourceFile
from ingot.converters.readers.jsonrows import whole_value
from ingot.converters.readers.lines import utf8_blocks
from ingot.converters.readers.stretch import Broken
from ingot.converters.rows import Json

MAX_BYTES = 64 << 20  # a larger file is not loaded to look for roots
_DEPTH = 3
_FEW = 3  # an object of fewer values is a record rather than keyed by id


def candidates(files: Sequence[SourceFile]) -> tuple[RootCandidate, ...]:
    """Candidates of the largest file that is one object and not too large; () where there is none.

    `rows` counts that file alone.
    """
    objects = [file for file in files if file.facts.layout == "object" and file.bytes <= MAX_BYTES]
    if not objects:
        return ()
    file = max(objects, key=lambda file: (file.bytes, file.name))
    with file.place.open() as raw:
        stream = decompressed(raw, str(file.place))
        parts = utf8_blocks(stream, file.facts.encoding, file.facts.newline)
        value = whole_value(parts, MAX_BYTES)
    if type(value) is Broken or not isinstance(value, dict):
        return ()
    return ranked(value, len(objects))


def ranked(value: dict[str, Json], files: int) -> tuple[RootCandidate, ...]:
    """The candidates of one object, best first; `files` is how many files there are like it."""
    found = [(points, root) for points, root in _found(value, (), 1)]
    found.append(
        (_file_points(value, files), RootCandidate(path="$", rows=1, why="the file as one row"))
    )
    return tuple(root for _, root in sorted(found, key=lambda item: (-item[0], item[1].path)))


def _found(
    value: dict[str, Json], keys: tuple[str, ...], depth: int
) -> Iterator[tuple[float, RootCandidate]]:
    if len(value) >= _FEW and (why := _keyed_by_id(value)):
        path = join_path(*keys, ".*").removeprefix(".")
        yield 2.0 - depth * 0.5, RootCandidate(path=path, rows=len(value), why=why)
    for key, held in value.items():
        here = (*keys, key)
        if isinstance(held, list) and held and all(isinstance(item, dict) for item in held):
            root = RootCandidate(
                path=join_path(*here, "[*]"), rows=len(held), why="a list of objects"
            )
            yield _list_points(held) - depth * 0.25, root
        elif isinstance(held, list) and len(held) >= _FEW and all(isinstance(i, str) for i in held):
            root = RootCandidate(
                path=join_path(*here, "[*]"), rows=len(held), why="a list of texts"
            )
            yield 0.1 - depth * 0.25, root
        elif isinstance(held, dict) and depth < _DEPTH and len(value) < 100:
            yield from _found(held, here, depth + 1)


def _list_points(held: Sequence[Json]) -> float:
    return 1.5 if len(held) >= _FEW else 0.9


def _keyed_by_id(value: dict[str, Json]) -> str | None:
    """Whether the values are records of one kind: objects with the same keys, or long texts."""
    held = list(value.values())
    if all(isinstance(item, dict) for item in held):
        shared = set(held[0]).intersection(*held[:100])
        return "objects keyed by id" if shared and not _by_name(value) else None
    if all(isinstance(item, str) for item in held):
        long = sum(len(item) > 40 for item in held) * 2 > len(held)
        return "texts keyed by id" if len(held) > 20 or (long and not _by_name(value)) else None
    if all(isinstance(item, list) for item in held) and len(held) > 20:
        return "lists keyed by id"
    return None


def _by_name(value: dict[str, Json]) -> bool:
    """Whether the keys read like names of fields: few plain words without a digit."""
    return len(value) < 10 and all(
        key.isidentifier() and not any(map(str.isdigit, key)) for key in value
    )


def _file_points(value: dict[str, Json], files: int) -> float:
    """A file is a record if there are many like it, or if it has a text of its own."""
    text = any(isinstance(item, str) and len(item) > 200 for item in value.values())
    return (1.4 if files > 2 else 0.0) + (0.8 if text else 0.0) + 0.4
