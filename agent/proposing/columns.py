"""A sample as a table: its columns, and what they hold."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from math import isfinite
from typing import TypeVar

from ingot.agent.proposing.names import name_strength
from ingot.converters.json_yaml import leaves
from ingot.converters.paths import (
    Index,
    Key,
    Mark,
    Names,
    Node,
    compile_path,
    quote_name,
    steps_text,
)
from ingot.converters.rows import Json, RowError
from ingot.converters.sources.formats.row_chunks import JsonTextError, parse_json
from ingot.converters.sources.profile import PathFacts, Profile, profile_values
from ingot.converters.sources.text_kinds import bare_words, count_words, markup_level

T = TypeVar("T")
NO_TEXT = ("url", "time", "file", "hash", "uuid", "email", "number")


def text_of(value: Json) -> str:
    """Return the text of a scalar in its JSON spelling, "" for what has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else ""


def texts_in(value: Json) -> Iterator[str]:
    """Yield every text in a value; of a number its digits."""
    return (one if isinstance(one, str) else str(one) for one in leaves(value) if one is not None)


def has_several(column: "Column") -> bool:
    """Return whether most rows have more than one value."""
    return sum(len(row) > 1 for row in column.values) > 0.5 * len(column.values)


def is_path_inside(path: str, head: str) -> bool:
    """Return whether a path leads into what stands at another one."""
    return path.startswith((f"{head}.", f"{head}["))


def parse_whole_number(text: str) -> int | None:
    """Return the number that a text spells in plain digits; `²` and `①` are none."""
    bare = text.strip()
    return int(bare) if bare.isascii() and bare.isdigit() and len(bare) < 16 else None


def parse_finite_number(text: str) -> float | None:
    """Return the number that a text spells, None for words, `nan` and `inf`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None


def start_alike(groups: Sequence[Sequence[float]]) -> bool:
    """Return whether sorted numbers restart in every group, compared with where they end."""
    ends = [group[-1] for group in groups if len(group) > 1]
    starts = [group[0] for group in groups]
    return bool(ends) and min(starts) >= 0 and max(starts) <= min(ends) / 2


def parse_json_text(text: str) -> Json:
    """Return the list or object that a text spells, None if it is not JSON or too deep."""
    try:
        value = parse_json(text.encode("utf-8", "replace"))
    except JsonTextError:
        return None
    return value if isinstance(value, list | dict) else None


def values_at(path: str, node: Node) -> list[Json]:
    """Return values at a path of a record; a path that does not fit it gives nothing."""
    try:
        return compile_path(path).find(node)
    except RowError:
        return []


def nodes_at(path: str, node: Node) -> list[Node]:
    """Return what stands at a path of a record, in its place; nothing if it does not fit."""
    try:
        return compile_path(path).nodes(node)
    except RowError:
        return []


class Places:
    """Nodes, and what stands at paths of them; each path is looked up once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._values: dict[str, tuple[tuple[Json, ...], ...]] = {}
        self._texts: dict[str, list[list[str]]] = {}

    def values(self, path: str) -> tuple[tuple[Json, ...], ...]:
        """Return for each node the values at a path."""
        values = self._values.get(path)
        if values is None:
            values = self._values[path] = tuple(tuple(values_at(path, n)) for n in self.nodes)
        return values

    def texts(self, path: str) -> list[list[str]]:
        """Return for each node the texts of these values."""
        texts = self._texts.get(path)
        if texts is None:
            texts = self._texts[path] = [[text_of(v) for v in row] for row in self.values(path)]
        return texts

    def firsts(self, path: str) -> list[str]:
        """Return for each node the text of the first value at a path, "" if there is none."""
        return [row[0] if row else "" for row in self.texts(path)]


def total_chars(facts: PathFacts) -> float:
    """Return the characters of all texts at a path."""
    return facts.chars.total if facts.chars else 0


def last_name(path: str) -> str:
    """Return the last field's name in a path, "" for `$` and the like."""
    for step in reversed(compile_path(path).steps):
        if isinstance(step, Names):
            return step.names[-1]
        if isinstance(step, Key):
            return step.name
    return ""


def outer_names(path: str) -> list[str]:
    """Return the fields' names of a path before the last one."""
    names: list[str] = []
    for step in compile_path(path).steps:
        if isinstance(step, Names):
            names += step.names
        elif isinstance(step, Key):
            names.append(step.name)
    return names[:-1]


def parent_path(path: str) -> str:
    """Return the path without its last name or mark (`$` for a single one)."""
    steps = compile_path(path).steps
    if not steps:
        return "$"
    *before, last = steps
    if isinstance(last, Names) and len(last.names) > 1:
        before.append(Names(last.names[:-1]))
    return steps_text(tuple(before))


def list_path(path: str) -> str:
    """Return the path of the first list on the way (`questions` of `questions[*].text`)."""
    steps = compile_path(path).steps
    first = next((n for n, step in enumerate(steps) if isinstance(step, Mark)), len(steps))
    return steps_text(steps[:first])


@dataclass(frozen=True, eq=False)
class Column:
    """One place per row that can be taken as text: a scalar, or a list of scalars (`many`)."""

    path: str
    facts: PathFacts
    position: int
    many: bool
    values: tuple[tuple[Json, ...], ...]

    @cached_property
    def name(self) -> str:
        """Return the field's own name."""
        return last_name(self.path)

    @cached_property
    def nested(self) -> bool:
        """Return whether it lies inside the objects of a list."""
        return self.many and not self.path.endswith("[*]")

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Return the text of each row; several hits are joined by a line break."""
        return tuple("\n".join(text_of(v) for v in row if text_of(v)) for row in self.values)

    @cached_property
    def present(self) -> tuple[str, ...]:
        """Return the texts of the rows that have one."""
        return tuple(text for text in self.texts if text.strip())

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Return how many values each row has."""
        return tuple(map(len, self.values))

    @cached_property
    def filled(self) -> tuple[bool, ...]:
        """Return whether each row has a text."""
        return tuple(bool(text.strip()) for text in self.texts)

    @cached_property
    def bare_texts(self) -> tuple[str, ...]:
        """Return the texts as bare words."""
        return tuple(map(bare_words, self.texts))

    @cached_property
    def markup(self) -> int:
        """Return how much most of its texts have: 2 tags, 1 signs as of Markdown, 0 none."""
        return markup_level(self.present[:100])

    @cached_property
    def fill(self) -> float:
        """Return the share of the rows with a text."""
        return len(self.present) / max(1, len(self.texts))

    @cached_property
    def distinct(self) -> int:
        """Return the different texts."""
        return len(set(self.present))

    @cached_property
    def words(self) -> float:
        """Return the words of an ordinary text, the mean over the rows that have one."""
        sample = self.present[:100]
        return sum(count_words(text[:3000]) for text in sample) / max(1, len(sample))

    @cached_property
    def chars(self) -> int:
        """Return the characters of all texts."""
        return sum(len(text) for text in self.present)

    def looks(self, look: str) -> float:
        """Return the share of the texts with a look."""
        return self.facts.looks.get(look, 0.0)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return its name, with the name around it if it says little (`abstract[*].text`)."""
        around = outer_names(self.path)
        vague = self.nested or name_strength(self.name, "utterance") == 1.0
        return (self.name, around[-1]) if vague and around else (self.name,)

    def named(self, slot: str) -> float:
        """Return how far the name says that it is a slot of the alias tables."""
        last, *outer = self.names
        known = max([name_strength(last, slot), *(0.95 * name_strength(n, slot) for n in outer)])
        around = outer_names(self.path)
        return max(known, 0.7 * name_strength(around[-1], slot)) if around else known

    def named_own(self, slot: str) -> float:
        """Return how far its own name alone says so."""
        return name_strength(self.name, slot)

    @cached_property
    def numeric(self) -> bool:
        """Return whether it holds numbers or truth values, as such or as texts."""
        types = self.facts.types
        plain = types.get("integer", 0) + types.get("number", 0) + types.get("boolean", 0)
        return plain > types.get("string", 0) or self.looks("number") > 0.9

    @property
    def nameless(self) -> bool:
        """Return whether its file has no header."""
        return bool(re.fullmatch(r"c\d+", self.name))

    @cached_property
    def constant(self) -> bool:
        """Return whether it has the same text everywhere."""
        return self.distinct == 1 and len(self.present) > 2

    @cached_property
    def nature(self) -> str:
        """Return what it holds: empty, number, a look that is no text, letter, label, or text."""
        if not self.present:
            return "empty"
        if self.numeric:
            return "number"
        for look in NO_TEXT:
            if self.looks(look) >= 0.8:
                return look
        if sum(map(self.looks, NO_TEXT)) >= 0.9 or _are_keys(self.present):
            return "mark"
        if self.looks("letter") >= 0.8:
            return "letter"
        filled = len(self.present)
        few = filled >= 6 and self.distinct <= max(2, filled * 0.34)
        return "label" if few and self.words < 4.5 else "text"

    @property
    def text(self) -> bool:
        """Return whether it holds text that could be trained on."""
        return self.nature == "text"


_KEY = re.compile(
    r"([A-Za-z]{1,12}[-_:#.]?)(?=[0-9A-Fa-f]*\d)[0-9A-Fa-f]{3,}(?:[-_.][0-9A-Za-z]+)*"
)
_HEX = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}", re.IGNORECASE)


def _are_keys(texts: Sequence[str]) -> bool:
    """Whether texts are keys of something: `pr-42034`, `out-1381216f`, `05fe8a2c`."""
    matches = [_KEY.fullmatch(text.strip()) for text in texts[:200]]
    prefixes = [match[1] for match in matches if match]
    most = max(map(prefixes.count, set(prefixes)), default=0)
    hexed = sum(bool(_HEX.fullmatch(text.strip())) for text in texts[:200])
    return len(texts) > 3 and max(most, hexed) >= 0.8 * len(matches)


def judged_once(judge: Callable[[Column], T]) -> Callable[[Column], T]:
    """Keep with a column what a function says of it: columns are compared with each other."""

    @wraps(judge)
    def judge_column(column: Column) -> T:
        known: dict[object, T] = vars(column).setdefault("_judged", {})
        if judge not in known:
            known[judge] = judge(column)
        return known[judge]

    return judge_column


@dataclass(frozen=True)
class View:
    """Sampled records in one reading of them, in their places, with their profile and columns.

    `each` is the record-level path that gave them ("" for whole rows).
    """

    nodes: tuple[Node, ...]
    facts: Profile
    each: str = ""

    @classmethod
    def of(cls, values: Sequence[Json]) -> "View":
        """Return the view of whole rows."""
        return cls.over([Node(value) for value in values])

    @classmethod
    def over(cls, nodes: Sequence[Node], each: str = "") -> "View":
        """Return the view of records that stand inside rows."""
        return cls(nodes=tuple(nodes), facts=profile_values([n.value for n in nodes]), each=each)

    @cached_property
    def places(self) -> Places:
        """Return what stands at paths of the records."""
        return Places(self.nodes)

    @cached_property
    def _elements(self) -> dict[str, Places]:
        return {}

    def elements(self, path: str) -> Places:
        """Return what stands at a path of all records, one after another, by itself."""
        view = self._elements.get(path)
        if view is None:
            nodes = [Node(value) for row in self.places.values(path) for value in row]
            view = self._elements[path] = Places(nodes)
        return view

    @cached_property
    def own(self) -> tuple[Column, ...]:
        """Return scalars of the record and of objects in it, and texts in lists."""
        inside = ((f, count_wildcards(f.path)) for f in self.facts.paths if has_scalars(f))
        few = [(f, wild > 0) for f, wild in inside if wild in (0, 1)]
        return tuple(self._column(f, f.path, many, n) for n, (f, many) in enumerate(few))

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Return its own columns, and the scalars around it."""
        columns = list(self.own)
        for up in self._around():
            facts = profile_values([row[0] if row else None for row in self.places.values(up)])
            columns.append(self._column(facts.paths[0], up, up.endswith("[*]"), len(columns)))
        return tuple(columns)

    def _column(self, facts: PathFacts, path: str, many: bool, position: int = 0) -> Column:
        values = self.places.values(path)
        return Column(path=path, facts=facts, position=position, many=many, values=values)

    def _around(self) -> list[str]:
        """Paths to the scalars of the objects around the records."""
        paths: dict[str, None] = {}
        for node in self.nodes[:50]:
            up, marks = enclosing_object(node), "^"
            while up is not None:
                for key, value in up.value.items():
                    name = f"{marks}.{quote_name(key)}".replace(".[", "[")
                    if isinstance(value, str | int | float) and value != "":
                        paths[name] = None
                    elif isinstance(value, list) and value and isinstance(value[0], str):
                        paths[f"{name}[*]"] = None
                up, marks = enclosing_object(up), f"{marks}.^"
        return list(paths)

    @cached_property
    def deep(self) -> tuple[Column, ...]:
        """Return texts in lists inside lists (`sections[*].paragraphs[*]`)."""
        inside = [f for f in self.facts.paths if f.chars and (count_wildcards(f.path) or 0) > 1]
        return tuple(self._column(f, f.path, True) for f in inside)

    def column(self, path: str) -> Column | None:
        """Return the column at a path."""
        return next((c for c in self.columns if c.path == path), None)

    @cached_property
    def texts(self) -> tuple[Column, ...]:
        """Return the columns that hold text."""
        return tuple(c for c in self.columns if c.text)


def enclosing_object(node: Node) -> Node | None:
    """Return the nearest object around a value."""
    up = node.parent
    while up is not None and not isinstance(up.value, dict):
        up = up.parent
    return up


def count_wildcards(path: str) -> int | None:
    """Return how many `[*]` a path has; None if it also has other marks or numbers."""
    steps = compile_path(path).steps
    wild = [step for step in steps if isinstance(step, Mark)]
    odd = any(isinstance(step, Index) for step in steps) or any(s.mark != "[*]" for s in wild)
    return None if odd else len(wild)


def has_scalars(facts: PathFacts) -> bool:
    """Return whether some values at a path are texts, numbers or truth values."""
    return any(facts.types.get(k) for k in ("string", "integer", "number", "boolean"))
