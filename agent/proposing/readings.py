"""Readings of the rows of a source, and the drafts of mappings and conversations found in them."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ingot.agent.proposing.columns import (
    Column,
    View,
    has_scalars,
    last_name,
    nodes_at,
    parse_json_text,
    text_of,
    values_at,
)
from ingot.agent.proposing.names import CLEAR, NAMED, PLAIN, name_strength, speaker_role
from ingot.agent.proposing.proposal import Evidence
from ingot.converters.mapping.bind import read_tree
from ingot.converters.mapping.language import Mapping
from ingot.converters.paths import Key, Mark, Names, Node, Step, compile_path, steps_text
from ingot.converters.rows import Json, MappingDocument
from ingot.converters.sources.formats.row_chunks import parse_fields
from ingot.converters.sources.profile import PathFacts, pick_evenly, profile_values
from ingot.converters.sources.sample import Sample

MAX_RECORDS = 600


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Rows read in one way.

    Attributes:
        source: facts about the files that this reading needs, on top of the source's own.
        outer: keys of the mapping that make records of rows (`each`, `group`).
        factor: how much drafts of this reading are trusted against those of the plain one.
        paged: rows are gathered as the pages of a text, not as the turns of a conversation.
        threaded: rows are gathered as the posts of a thread, or by a column that is called so.
    """

    view: View
    sample: Sample
    source: dict[str, Json] = field(default_factory=dict)
    outer: MappingDocument = field(default_factory=dict)
    factor: float = 1.0
    most: float = 1.0
    why: str = "the rows as they are"
    paged: bool = False
    threaded: bool = False

    @property
    def rows(self) -> list[Json]:
        """Return the values of the rows."""
        return [row.value for row in self.sample.rows]


def plain_reading(sample: Sample, source: dict[str, Json], factor: float, why: str) -> Reading:
    """Return the rows as a source gives them."""
    nodes = [Node(row.value, row.key) for row in sample.rows]
    return Reading(view=View.over(nodes), sample=sample, source=source, factor=factor, why=why)


def json_columns(view: View) -> list[Column]:
    """Return texts that hold JSON in every row that has one."""
    parsed = []
    for column in view.columns:
        texts = [t for t in column.present if t.strip()]
        json_like = texts and not column.many and column.looks("json") > 0.9
        if json_like and all(parse_json_text(text) is not None for text in texts):
            parsed.append(column)
    return parsed


_MOST_NESTED = 3  # texts of JSON in texts of JSON


def parse_json_columns(reading: Reading) -> Iterator[Reading]:
    """Yield the same rows with JSON strings parsed, also those inside of others."""
    paths: list[str] = []
    parsed = reading
    for _ in range(_MOST_NESTED):
        columns = [c for c in json_columns(parsed.view) if c.named("tools") < CLEAR]
        found = [c.path for c in columns if isinstance(_only_step(c.path), Names | Key)]
        if not found:
            break
        paths += found
        rows = [replace(row, value=parse_fields(row.value, found)) for row in parsed.sample.rows]
        parsed = plain_reading(
            replace(reading.sample, rows=tuple(rows)),
            {**reading.source, "json_fields": paths},
            reading.factor,
            f"{', '.join(paths)} hold JSON",
        )
    if paths:
        yield parsed


def _only_step(path: str) -> Step | None:
    steps = compile_path(path).steps
    return steps[0] if len(steps) == 1 else None


def _elements_at(path: str, rows: Sequence[Json]) -> list[Node]:
    """Objects at a path, from every row; of many some, spread over all."""
    nodes: list[Node] = []
    most = max(20, 2 * MAX_RECORDS // max(1, len(rows)))
    for row in rows:
        elements = [n for n in nodes_at(path, Node(row)) if isinstance(n.value, dict)]
        nodes += pick_evenly(elements, most)
    return list(pick_evenly(nodes, MAX_RECORDS))


def element_readings(reading: Reading) -> Iterator[Reading]:
    """Yield one record per element of a list of objects, deepest lists first."""
    lists = [
        f.path
        for f in reading.view.facts.paths
        if f.types.get("object", 0) > 1
        and any(isinstance(step, Mark) for step in compile_path(f.path).steps[-1:])
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
    """Return whether elements are documents: each has a title or an id, and a long text."""
    texts = [c for c in view.columns if c.text and not c.path.startswith("^")]
    body = max(texts, key=lambda c: c.chars, default=None)
    chapters = any(c.named("title") >= PLAIN and c.path.startswith("^") for c in view.columns)
    if body is None or body.words < 15 or chapters:
        return False
    other_texts = [
        c for c in view.columns if not c.path.startswith("^") and c is not body and not c.many
    ]
    titled = any(
        c.named("title") >= CLEAR and c.distinct > 0.5 * len(c.present) and c.fill > 0.8
        for c in other_texts
    )
    marked = any(
        c.fill > 0.9
        and c.distinct == len(c.present)
        and (
            (c.named("id") >= PLAIN and c.nature in ("hash", "uuid", "mark", "text"))
            or c.named("url") == 1
        )
        for c in other_texts
    )
    return titled or marked


def rows_by_shape(rows: Sequence[Json]) -> list[list[Json]]:
    """Return rows grouped by their keys, or by the keys in their lists; the largest group first."""
    if not all(isinstance(row, dict) for row in rows):
        return []
    return _rows_by_keys(rows, _filled_keys) or _rows_by_keys(rows, _keys_in_lists)


def _filled_keys(row: dict[str, Json]) -> frozenset[str]:
    return frozenset(key for key, value in row.items() if value not in (None, "", []))


def _keys_in_lists(row: dict[str, Json]) -> frozenset[str]:
    lists = [(key, content) for key, content in row.items() if isinstance(content, list)]
    inside = [
        (key, element)
        for key, elements in lists
        for element in elements
        if isinstance(element, dict)
    ]
    return frozenset(f"{key}.{inner}" for key, element in inside for inner in _filled_keys(element))


_SMALLEST_PART = 0.02  # of the rows: the coverage that a mapping needs leaves room for fewer


def _rows_by_keys(
    rows: Sequence[dict[str, Json]], keys_of: Callable[[dict[str, Json]], frozenset[str]]
) -> list[list[Json]]:
    kinds = Counter(map(keys_of, rows))
    heads: list[frozenset[str]] = []
    for keys, _ in kinds.most_common():
        if keys and not any(len(keys & head) > 0.5 * min(len(keys), len(head)) for head in heads):
            heads.append(keys)
    if not heads:
        return []
    parted: dict[frozenset[str], list[Json]] = {head: [] for head in heads}
    for row in rows:
        keys = keys_of(row) or heads[0]
        parted[max(heads, key=lambda head: len(keys & head) / len(keys | head))].append(row)
    large = [part for part in parted.values() if len(part) >= max(2, _SMALLEST_PART * len(rows))]
    return large if 2 <= len(large) <= 5 else []


@dataclass(frozen=True, kw_only=True)
class Draft:
    """One way to read the rows of a view.

    Attributes:
        kind: `pt` or `sft`.
        score: 0..1, how well names and values speak for it.
        explicit: names or speakers say that this is a conversation; or, of a text, that it is one.
        unknown: speakers without a role: rows that fail on them do not speak against the draft.
    """

    kind: str
    body: MappingDocument
    score: float
    why: str
    used: frozenset[str] = frozenset()
    explicit: bool = True
    pair: bool = False
    evidence: tuple[Evidence, ...] = field(default=())
    most: float = 1.0
    unknown: frozenset[str] = frozenset()

    @cached_property
    def tree(self) -> Mapping:
        """Return the mapping of its body alone."""
        return read_tree({"version": 2, **self.body})

    def times(self, factor: float) -> "Draft":
        """Return the same draft, trusted more or less."""
        return replace(self, score=min(1.0, self.score * factor))


def join_parts(parts: list[Json]) -> Json:
    """Return parts of a text: one part stands for itself."""
    return parts[0] if len(parts) == 1 else parts


def thought_part(path: str, name: str) -> Json:
    """Return the reasoning before an answer between marks, so that it is not part of the answer.

    These are the marks that chat templates look for; a text without reasoning has none.
    """
    if name_strength(name, "thought") < NAMED:
        return path
    return {"template": f"<think>\n{{{{{path}}}}}\n</think>\n"}


def question_answer_messages(user: list[Json], assistant: list[Json]) -> list[dict[str, Json]]:
    """Return the messages of one question and one answer."""
    return [
        {"role": "user", "content": join_parts(user)},
        {"role": "assistant", "content": join_parts(assistant)},
    ]


MAX_PLACES = 4


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation found at one place.

    Attributes:
        path: of the list (`messages`), without its wildcard.
        score: 0..1.
        ends_open: share of the rows whose conversation ends without an assistant's turn.
        where: conditions on the rows.
    """

    path: str
    entries: tuple[dict[str, Json], ...]
    score: float
    why: str
    ends_open: float
    evidence: tuple[Evidence, ...] = ()
    used: frozenset[str] = frozenset()
    most: float = 1.0
    where: tuple[Json, ...] = ()
    unknown: frozenset[str] = frozenset()


def role_evidence(choice: str, why: str, confidence: float) -> tuple[Evidence, ...]:
    """Return the reason for the roles of a conversation."""
    return (Evidence(target="messages.role", choice=choice, why=why, confidence=confidence),)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A scalar below the elements of a list: its path inside an element, and its facts."""

    inner: str
    facts: PathFacts

    @property
    def name(self) -> str:
        """Return its own name."""
        return last_name(self.inner) if self.inner != "$" else ""


def path_below(path: str, prefix: str) -> str:
    """Return what is left of a path below a prefix (`$` where nothing is)."""
    return path[len(prefix) :].removeprefix(".") or "$"


def join_inner_path(element: str, inner: str) -> str:
    """Return the path of a field in its row."""
    if inner == "$":
        return element
    return element + inner if inner.startswith("[") else f"{element}.{inner}"


def seen_from_element(value: Json) -> Json:
    """Return a value of a row as an element of a list in it reads it: a path, or what holds one."""
    if isinstance(value, str):
        return join_inner_path("^", value)
    if isinstance(value, list):
        return [seen_from_element(part) for part in value]
    return {**value, "path": seen_from_element(value["path"])} if "path" in value else value


def list_elements(view: View) -> Iterator[tuple[str, str]]:
    """Yield places with several elements: their path, and an element's (`[*]` or `.*`)."""
    for facts in view.facts.paths:
        steps = compile_path(facts.path).steps
        if steps and isinstance(steps[-1], Mark) and steps[-1].mark in ("[*]", "*"):
            before = [step for step in steps[:-1] if isinstance(step, Mark)]
            if not before:
                yield steps_text(steps[:-1]), facts.path


def element_fields(view: View, element: str) -> list[Field]:
    """Return the scalars inside the elements, but not inside further lists.

    The elements of short lists count, by their position.
    """
    fields = short_list_places(view, element)
    for facts in view.facts.paths:
        if not facts.path.startswith(element) or facts.path == element:
            continue
        inner = path_below(facts.path, element)
        if inner[0] != "[" or inner.startswith("['"):
            wild = [s for s in compile_path(inner).steps if isinstance(s, Mark)]
            if not wild and has_scalars(facts):
                fields.append(Field(inner=inner, facts=facts))
    return fields


def short_list_places(view: View, element: str) -> list[Field]:
    """Return the places of elements that are short lists of one length, such as pairs."""
    facts = view.facts.get(element)
    if facts is None or not facts.items or not 2 <= facts.items.low <= MAX_PLACES:
        return []
    if facts.items.high != facts.items.low:
        return []
    inner = [f"[{place}]" for place in range(int(facts.items.low))]
    values_by_field = [
        [v for row in view.places.values(element + path) for v in row] for path in inner
    ]
    fields = [
        Field(inner=path, facts=profile_values(values).paths[0])
        for path, values in zip(inner, values_by_field, strict=True)
        if values
    ]
    return [field for field in fields if has_scalars(field.facts)]


def field_sequences(view: View, element: str, inner: str) -> list[list[str]]:
    """Return the texts of a field of the elements of each row, in order."""
    return view.places.texts(join_inner_path(element, inner))


def name_sides(name: str) -> tuple[float, float]:
    """Return how far a name is the user's side of a turn, and the assistant's."""
    role = speaker_role(name)
    strength = max(name_strength(name, "input"), name_strength(name, "instruction"))
    user = max(name_strength(name, "question"), 0.8 * strength)
    assistant = name_strength(name, "answer")
    return max(user, float(role == "user")), max(assistant, float(role == "assistant"))


def text_weight(text_field: Field) -> float:
    """Return how much running text a field of the elements carries."""
    facts = text_field.facts
    if not facts.chars or facts.types.get("string", 0) == 0:
        return 0.0
    looks = ("url", "uuid", "hash", "time", "number", "file")
    if max(facts.looks.get(look, 0.0) for look in looks) > 0.7:
        return 0.0
    total = facts.chars.total
    if facts.distinct <= max(2, 0.05 * facts.filled) and facts.filled > 20:
        total *= 0.05
    total *= 0.3 + 0.7 * facts.distinct / max(1, facts.filled)
    total *= facts.filled / max(1, facts.places)
    return total * (1 + name_strength(text_field.name, "utterance"))


_PIECE_END = re.compile(r"[.!?…。！？:：;；\])）」』\"'”’`}>]$|\n[^\S\n]*\Z")


def joined_pieces(view: View, path: str, value: str | None = None) -> Json:
    """Return the texts of a list as one value.

    If the texts cut sentences, they are joined without a separator.
    """
    element = path[: path.rfind("[*]") + 3]
    head = element.removesuffix("[*]") or "$"
    lists = [value for node in view.nodes[:60] for value in values_at(head, node)]
    inner = path_below(path, element)
    rows = [
        [text_of(v) for element in elements for v in values_at(inner, Node(element)) if text_of(v)]
        for elements in lists
        if isinstance(elements, list)
    ]
    cuts = [text for row in rows if len(row) > 1 for text in row[:-1]]
    streamed = sum(not _PIECE_END.search(text) for text in cuts) > 0.5 * len(cuts)
    return {"path": value or path, "sep": ""} if streamed else value or path
