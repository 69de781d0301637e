"""Where rows may lie in a file that is one object: the roots and tables that it offers."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise

from ingot.converters.paths import join_path
from ingot.converters.rows import Json
from ingot.converters.sources.facts import RootCandidate, SourceFile
from ingot.converters.sources.formats.json_documents import guess_orient, parse_json_document
from ingot.converters.sources.formats.json_rows import top_level_containers
from ingot.converters.sources.formats.row_chunks import BrokenRow
from ingot.converters.sources.formats.text import read_utf8_blocks
from ingot.converters.sources.storage.compression import open_decompressed

MAX_BYTES = 64 << 20  # a larger file is not loaded to look for roots, only its head is
MAX_HEAD = 1 << 20
_HEAD_BLOCKS = 8  # of a megabyte
_MOST_CANDIDATES = 20
_MOST_DEPTH = 3
_TABLE_POINTS = 3.0
_MOST_OTHERS = 5  # rows of lists to each value beside them
_LOOKED_AT = 100  # rows of a list
_FEWEST_TURNS, _TURN_SHARE = 4, 0.9
_FEW_VALUES = 3  # an object of fewer values is a record rather than keyed by id


def root_candidates(
    files: Sequence[SourceFile], *, tables: bool = True
) -> tuple[RootCandidate, ...]:
    """Return candidates of the largest file that is one object; () if there is none.

    With `tables` the file itself may be a table, whose `orient` is guessed. `rows` counts that file
    alone, and is None if it is too large to be loaded.
    """
    objects = [file for file in files if file.facts.layout == "object"]
    if not objects:
        return ()
    file = max(objects, key=lambda file: (file.bytes, file.name))
    if file.facts.format == "xml":
        from ingot.converters.sources.interchange.xml_rows import xml_roots

        return xml_roots(file, len(objects))
    with file.place.open() as raw:
        stream = open_decompressed(raw, str(file.place))
        parts = read_utf8_blocks(stream, str(file.place), file.facts.encoding, file.facts.newline)
        if file.facts.format in ("toml", "yaml"):
            from ingot.converters.sources.interchange.yaml_toml import load_tree

            head, value = b"", load_tree(file.facts.format, parts, str(file.place))
        else:
            head = b"".join(islice(parts, _HEAD_BLOCKS))
            value, _ = parse_json_document(chain([head], parts), MAX_BYTES)
    if isinstance(value, dict):
        # A file is a record if there are many like it, or if it has a text of its own.
        text = any(isinstance(item, str) and len(item) > 200 for item in value.values())
        points = (1.4 if len(objects) > 2 else 0.0) + (0.8 if text else 0.0) + 0.4
        whole = RootCandidate(path="$", rows=1, why="the file as one row")
        tables = tables and file.facts.format == "json"
        table = _find_table(value, len(objects)) if tables else ()
        ranked = [*table, *_find_roots(value, (), 1), (points, whole)]
        return tuple(root for _, root in sorted(ranked, key=lambda item: (-item[0], item[1].path)))
    large = type(value) is BrokenRow and len(head) > MAX_HEAD
    return tuple(_head_candidates(head)) if large else ()


def _find_table(
    value: dict[str, Json], files: int, path: str = "$"
) -> Iterator[tuple[float, RootCandidate]]:
    """An object as a table, which is best where it is one; many files of lists may be records."""
    orient, rows = guess_orient(value) or ("", 0)
    if orient and (orient != "list" or files < _FEW_VALUES):
        why = f"a table in the orient {orient}"
        yield _TABLE_POINTS, RootCandidate(path=path, rows=rows, why=why, orient=orient)


def _head_candidates(head: bytes) -> Iterator[RootCandidate]:
    """The candidates of a file that is too large, from its first megabytes."""
    containers = top_level_containers(head)
    if len(containers) > _MOST_CANDIDATES and all(is_object for _, is_object in containers):
        yield RootCandidate(path="*", rows=None, why="objects keyed by id")
        return
    for key, is_object in containers:
        mark, why = (".*", "an object") if is_object else ("[*]", "a list")
        yield RootCandidate(path=join_path(key, mark), rows=None, why=f"{why} in a large file")


def _find_roots(
    value: dict[str, Json], keys: tuple[str, ...], depth: int
) -> Iterator[tuple[float, RootCandidate]]:
    if len(value) >= _FEW_VALUES and (why := _id_key_reason(value)):
        path = join_path(*keys, ".*").removeprefix(".")
        yield 2.0 - depth * 0.5, RootCandidate(path=path, rows=len(value), why=why)
    if rows := _count_keyed_twice(value):
        path = join_path(*keys, ".*", ".*").removeprefix(".")
        why = "objects keyed by two ids"
        yield 2.2 - depth * 0.5, RootCandidate(path=path, rows=rows, why=why)
    if rows := _count_alike_rows(value):
        path = join_path(*keys, ".*", "[*]").removeprefix(".")
        # Of many lists under ids each may be a record.
        points = 1.4 if _id_key_reason(value) else 1.8
        yield points - depth * 0.25, RootCandidate(path=path, rows=rows, why="lists of equal rows")
    for key, content in value.items():
        here = (*keys, key)
        if isinstance(content, dict) and {"columns", "data"} <= content.keys():
            yield from _find_table(content, 1, join_path(*here))
        if isinstance(content, dict) and depth < _MOST_DEPTH and len(value) < 100:
            yield from _find_roots(content, here, depth + 1)
        if not isinstance(content, list) or not content:
            continue
        path, long = join_path(*here, "[*]"), len(content) >= _FEW_VALUES
        if all(isinstance(item, dict) for item in content):
            root = RootCandidate(path=path, rows=len(content), why="a list of objects")
            points = 0.2 if _take_turns(content) else 1.5 if long else 0.9
            yield points - depth * 0.25, root
        elif long and all(isinstance(item, str) for item in content):
            root = RootCandidate(path=path, rows=len(content), why="a list of texts")
            yield 0.1 - depth * 0.25, root


def _take_turns(rows: list[dict[str, Json]]) -> bool:
    """Whether the objects of a list read as messages: a few texts of one key take turns in it."""
    if len(rows) < _FEWEST_TURNS:
        return False
    for key in rows[0]:
        texts = [row.get(key) for row in rows]
        if not all(isinstance(text, str) for text in texts):
            continue
        changes = sum(text != other for text, other in pairwise(texts))
        if changes >= _TURN_SHARE * (len(rows) - 1) and 2 * len(set(texts)) <= len(rows):
            return True
    return False


def _count_alike_rows(value: dict[str, Json]) -> int:
    """How many rows the lists of an object hold, where nearly all values are lists of one kind."""
    lists = [rows for rows in value.values() if isinstance(rows, list) and rows]
    rows = sum(map(len, lists))
    if len(lists) < 2 or _MOST_OTHERS * (len(value) - len(lists)) > rows:
        return 0
    if all(isinstance(row, str) for rows in lists for row in rows):
        return rows if len(set(map(len, lists))) > 1 else 0  # else they may be columns
    if not all(isinstance(row, dict) for rows in lists for row in rows):
        return 0
    keys = [set().union(*rows[:_LOOKED_AT]) for rows in lists]
    common, every = set.intersection(*keys), set[str]().union(*keys)
    return rows if common and 2 * len(common) >= len(every) else 0


def _id_key_reason(value: dict[str, Json]) -> str | None:
    """Whether the values are records of one kind: objects with the same keys, or long texts."""
    values = list(value.values())
    numbered = all(any(map(str.isdigit, key)) for key in value)
    # Few plain words without a digit read like names of fields.
    named = len(value) < 10 and all(
        key.isidentifier() and not any(map(str.isdigit, key)) for key in value
    )
    if all(isinstance(item, dict) for item in values):
        shared = set(values[0]).intersection(*values[:100])
        return "objects keyed by id" if shared and not named else None
    if all(isinstance(item, str) for item in values):
        long = sum(len(item) > 40 for item in values) * 2 > len(values)
        return "texts keyed by id" if len(values) > 20 or (long and not named) else None
    if all(isinstance(item, list) for item in values) and (len(values) > 20 or numbered):
        return "lists keyed by id"
    return None


def _count_keyed_twice(value: dict[str, Json]) -> int:
    """How many records lie below two levels of ids, 0 where these are no ids."""
    values = list(value.values())
    if len(values) < 2 or not all(isinstance(item, dict) and item for item in values):
        return 0
    inner = [record for item in values for record in item.values()]
    kinds = {key for record in inner[:100] if isinstance(record, dict) for key in record}
    shared = set(values[0]).intersection(*values[1:100])
    alike = all(isinstance(r, dict) and 2 * len(kinds & set(r)) > len(kinds) for r in inner)
    return len(inner) if kinds and alike and not shared and len(inner) >= 2 * len(values) else 0
