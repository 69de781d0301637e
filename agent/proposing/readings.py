"""Ways to read the rows of a source: as they are, strings parsed, grouped, element by element.

Plain text files: is a text a line, a whole file, or neither.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from ingot.agent.proposing.columns import Column, View, parse_json_text
from ingot.converters.paths import Mark, Names, Node, RowError, compile_path
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.formats.detection import LISTS
from ingot.converters.sources.profile import pick_evenly
from ingot.converters.sources.sample import Sample, draw_sample

MAX_RECORDS = 600


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Rows read in one way.

    Attributes:
        source: facts about the files that this reading needs, on top of the source's own.
        outer: keys of the mapping that make records of rows (`each`, `group`).
        factor: how much drafts of this reading are trusted against those of the plain one.
    """

    view: View
    sample: Sample
    source: dict[str, Json] = field(default_factory=dict)
    outer: dict[str, Json] = field(default_factory=dict)
    factor: float = 1.0
    most: float = 1.0
    why: str = "the rows as they are"

    @property
    def rows(self) -> list[Json]:
        """The values of the rows."""
        return [row.value for row in self.sample.rows]


def plain_reading(sample: Sample, source: dict[str, Json], factor: float, why: str) -> Reading:
    """The rows as a source gives them."""
    nodes = [Node(row.value, row.key) for row in sample.rows]
    return Reading(view=View.over(nodes), sample=sample, source=source, factor=factor, why=why)


def _parse_texts(texts: Sequence[str]) -> list[Json] | None:
    """The values of texts that are all JSON lists or objects, else None."""
    values = []
    for text in texts:
        value = parse_json_text(text)
        if value is None:
            return None
        values.append(value)
    return values


def json_columns(view: View) -> list[Column]:
    """Texts that hold JSON in every row that has one."""
    found = []
    for column in view.columns:
        texts = [t for t in column.present if t.strip()]
        if (
            not column.many
            and column.looks("json") > 0.9
            and texts
            and _parse_texts(texts) is not None
        ):
            found.append(column)
    return found


def _replace_text(row: Json, path: str) -> Json:
    """A row with the text at a path parsed."""
    steps = compile_path(path).steps
    names = [n for s in steps if isinstance(s, Names) for n in s.names]
    if not names or len(steps) != 1 or not isinstance(row, dict):
        return row
    return _replace_inside(row, names)


def _replace_inside(row: dict[str, Json], names: list[str]) -> dict[str, Json]:
    head, *rest = names
    value = row.get(head)
    if rest:
        return {**row, head: _replace_inside(value, rest)} if isinstance(value, dict) else row
    if isinstance(value, str) and value.strip():
        return {**row, head: parse_json_text(value)}
    return row


def parse_json_columns(reading: Reading) -> Iterator[Reading]:
    """The same rows with JSON strings parsed."""
    columns = [c for c in json_columns(reading.view) if c.named("tools") < 0.9]
    wanted = [
        c for c in columns if len(compile_path(c.path).steps) == 1 and not c.path.startswith("[")
    ]
    if not wanted:
        return
    rows = list(reading.sample.rows)
    for column in wanted:
        rows = [replace(row, value=_replace_text(row.value, column.path)) for row in rows]
    paths = [c.path for c in wanted]
    yield plain_reading(
        replace(reading.sample, rows=tuple(rows)),
        {**reading.source, "json_fields": paths},
        reading.factor,
        f"{', '.join(paths)} hold JSON",
    )


def _elements_at(path: str, rows: Sequence[Json]) -> list[Node]:
    """Objects at a path, from every row; of many some, spread over all."""
    nodes: list[Node] = []
    most = max(20, 2 * MAX_RECORDS // max(1, len(rows)))
    for row in rows:
        try:
            found = [n for n in compile_path(path).nodes(Node(row)) if isinstance(n.value, dict)]
        except RowError:
            continue
        nodes += pick_evenly(found, most)
    return list(pick_evenly(nodes, MAX_RECORDS))


def element_readings(reading: Reading) -> Iterator[Reading]:
    """One record per element of a list of objects, deepest lists first."""
    lists = [
        f.path
        for f in reading.view.facts.paths
        if f.types.get("object", 0) > 1
        and isinstance(
            compile_path(f.path).steps[-1:][0] if compile_path(f.path).steps else None, Mark
        )
    ]
    for path in sorted(lists, key=lambda p: -p.count("["))[:6]:
        nodes = _elements_at(path, reading.rows)
        if len(nodes) < 2 or len(nodes) < len(reading.rows):
            continue
        yield Reading(
            view=View.over(nodes, each=path),
            sample=reading.sample,
            source=reading.source,
            outer={"each": path},
            factor=0.9 * reading.factor,
            why=f"one record per element of {path}",
        )


def has_documents(view: View) -> bool:
    """Whether elements are documents: with a title or an id each, and a text of some length."""
    texts = [c for c in view.columns if c.text and not c.path.startswith("^")]
    body = max(texts, key=lambda c: c.chars, default=None)
    chapters = any(c.named("title") >= 0.95 and c.path.startswith("^") for c in view.columns)
    if body is None or body.words < 15 or chapters:
        return False
    own = [c for c in view.columns if not c.path.startswith("^") and c is not body and not c.many]
    titled = any(
        c.named("title") >= 0.9 and c.distinct > 0.5 * len(c.present) and c.fill > 0.8 for c in own
    )
    marked = any(
        c.fill > 0.9
        and c.distinct == len(c.present)
        and (
            (c.named("id") >= 0.95 and c.nature in ("hash", "uuid", "mark", "text"))
            or c.named("url") == 1
        )
        for c in own
    )
    return titled or marked


def rows_by_shape(rows: Sequence[Json]) -> list[list[Json]]:
    """Rows parted by their keys, where a file mixes records of different kinds; largest first."""
    kinds: Counter[frozenset[str]] = Counter()
    for row in rows:
        if not isinstance(row, dict):
            return []
        kinds[frozenset(k for k, v in row.items() if v not in (None, "", []))] += 1
    heads: list[frozenset[str]] = []
    for keys, _ in kinds.most_common():
        if keys and not any(len(keys & head) > 0.5 * min(len(keys), len(head)) for head in heads):
            heads.append(keys)
    if not heads:
        return []
    parted: dict[frozenset[str], list[Json]] = {head: [] for head in heads}
    for row in rows:
        keys = frozenset(row) or heads[0]
        parted[max(heads, key=lambda head: len(keys & head) / len(keys | head))].append(row)
    large = [part for part in parted.values() if len(part) >= max(2, 0.05 * len(rows))]
    return large if 2 <= len(large) <= 5 else []


_FILES = 6  # from so many short files on each is a text of its own
_LINES = 80  # of a short file
_BLOCKS = 5
_IN_BLOCKS = 0.45  # the most that a line may claim where texts are blocks of lines
_SPLITS = re.compile(r"(?:^|[\W_])(?:train|valid|validation|val|dev|test)(?:ing)?(?:$|[\W_\d])")
_STOPS = re.compile(r"[.!?。！？…\"'”’」』)）:：;；]$")


def plain_text_readings(
    source: Source, sample: Sample, lines: Reading
) -> tuple[Reading, list[Reading]]:
    """Rows as they are, trusted as far as lines can be, and files of plain text as one row each."""
    formats = {file.facts.format for file in source.files}
    if formats != {"text"} or source.spec.root or not sample.rows:
        return lines, []
    if any(file.facts.shape & frozenset(LISTS) for file in source.files):
        return replace(lines, factor=0.5 * lines.factor), []
    texts = [row.value.get("text", "") for row in sample.rows if isinstance(row.value, dict)]
    files = draw_sample(source.with_spec(replace(source.spec, format="text", root="$")))
    held = [row.value["text"] for row in files.rows]
    whole = is_hard_wrapped(texts) or _is_text_per_file(source, held)
    most = _IN_BLOCKS if not whole and _is_in_blocks(held) else 1.0
    facts = {**source.guessed.to_document(), "format": "text", "root": "$"}
    reading = plain_reading(files, facts, 1.1 if whole else 0.7, "a file is a text")
    return replace(lines, most=most), [replace(reading, most=most)]


def is_hard_wrapped(texts: Sequence[str]) -> bool:
    """Whether lines are pieces of a running text: most stop in the middle of a sentence."""
    lines = [t.strip() for t in texts if t.strip()]
    if len(lines) < 4:
        return False
    open_end = sum(not _STOPS.search(t) for t in lines)
    low = sum(t[:1].islower() for t in lines)
    blank = 1 - len(lines) / len(texts)
    size = sorted(len(t) for t in lines)
    even = size[len(size) // 2] > 0.6 * size[int(0.95 * (len(size) - 1))]
    return (
        low > 0.2 * len(lines)
        or (blank > 0.15 and open_end < 0.9 * len(lines))
        or (open_end > 0.5 * len(lines) and even and size[-1] < 120 and blank > 0)
    )


def _is_text_per_file(source: Source, texts: Sequence[str]) -> bool:
    """Many short files with names of their own: articles, reviews, poems in a folder."""
    stems = [file.name.rsplit("/", 1)[-1].lower() for file in source.files]
    sizes = [len(text.split("\n")) for text in texts]
    named = not any(_SPLITS.search(stem) for stem in stems)
    return len(stems) >= _FILES and named and bool(sizes) and 2 <= median(sizes) <= _LINES


def _is_in_blocks(texts: Sequence[str]) -> bool:
    """Whether blank lines part blocks of several lines each, in files of many texts."""
    blocks = [block for text in texts[:20] for block in re.split(r"\n\s*\n", text[: 1 << 16])]
    several = sum(len(block.strip().split("\n")) > 1 for block in blocks)
    return len(blocks) >= _BLOCKS * max(1, len(texts)) and several > 0.7 * len(blocks)
