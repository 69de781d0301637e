"""Values of the mapping language, compiled to functions of a node (a row or an element).

A compiled value gives *hits*: JSON values in order, None if a place holds null or nothing, so
that labels and picks count places. Text is made last; one hit keeps its JSON type until then.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import zip_longest

from ingot.converters.json_yaml import found_text
from ingot.converters.mapping.language import Tree, Value
from ingot.converters.paths import MISSING, Node, Path, RowNode
from ingot.converters.rows import Batch, Json, RowError, count_looks
from ingot.converters.sources.storage.listing import path_stem

_MAX_DIGITS = 300  # of a place that is spelt as text
_LONG = 1000  # characters of what replaces others, above which they are counted beforehand

Hits = Callable[[Node], list[Json]]
Text = Callable[[Node], str | None]
Single = Callable[[Node], Json]


class PathStats:
    """Per path: how often it was looked up, gave nothing (missing), or gave only null."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}

    def counter(self, path: Path) -> list[int]:
        """Return the counts of a path: [looked up, missing, null]."""
        return self.counts.setdefault(path.text, [0, 0, 0])


def json_text(value: Json, path: str | None = None) -> str:
    """Return the text of one hit: JSON spelling for numbers and booleans."""
    kind = value.__class__
    if kind is str or (kind is int and value.bit_length() <= 64):
        return str(value)
    if isinstance(value, list | dict):
        raise RowError("not_text", path, found_text(value))
    return _spell_json(value, path)


def _spell_json(value: Json, path: str | None) -> str:
    """The JSON text of any value, however deep."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "".join(_spell_deep(value, path))
    except ValueError as error:
        raise RowError("not_text", path, found_text(value)) from error


def _spell_deep(value: Json, path: str | None) -> Iterator[str]:
    """The JSON text of a value nested too deeply for recursion, in pieces."""
    waiting: list[tuple[bool, Json]] = [(False, value)]  # (is a piece as it stands, what)
    while waiting:
        plain, one = waiting.pop()
        if plain:
            yield one
        elif isinstance(one, dict):
            keyed = ((json.dumps(k, ensure_ascii=False) + ": ", v) for k, v in one.items())
            waiting += reversed(_enclose_entries("{", keyed, "}"))
        elif isinstance(one, list):
            waiting += reversed(_enclose_entries("[", (("", v) for v in one), "]"))
        else:
            yield _spell_json(one, path)


def _enclose_entries(
    start: str, entries: Iterable[tuple[str, Json]], end: str
) -> list[tuple[bool, Json]]:
    pieces: list[tuple[bool, Json]] = []
    for before, value in entries:
        pieces += [(True, f", {before}" if pieces else before), (False, value)]
    return [(True, start), *pieces, (True, end)]


def is_blank(text: str | None) -> bool:
    """True for nothing, and for white space only."""
    return not text or text.isspace()


def row_nodes(batch: Batch) -> Iterator[RowNode]:
    """Return the rows of a batch as paths start at them."""
    keys: Sequence[str | int] = batch.rows if batch.keys is None else batch.keys
    file = path_stem(batch.file)
    return (RowNode(value, key, file) for value, key in zip(batch.values, keys, strict=True))


def each_nodes(each: tuple[Path, ...], start: Node) -> list[Node]:
    """Return the elements of `each`: the hits of one path, or of lists in step."""
    if len(each) == 1:
        return each[0].nodes(start)
    walked = zip_longest(*(path.find(start) for path in each))
    return [Node(list(element), i, start) for i, element in enumerate(walked)]


def tree_nodes(tree: Tree, start: Node) -> Iterator[Node]:
    """Yield the nodes of a tree in document order.

    A level below its depth is the error `too_deep`.
    """
    waiting = [(node, 1) for node in reversed(tree.path.nodes(start))]
    while waiting:
        node, level = waiting.pop()
        if node.value is None:
            continue
        if level > tree.depth:
            raise RowError("too_deep", tree.children.text, found_text(node.value))
        yield node
        waiting += [(child, level + 1) for child in reversed(tree.children.nodes(node))]


def path_hits(path: Path, stats: PathStats) -> Hits:
    """Return the hits of a path, counted."""
    count = stats.counter(path)

    def hits(node: Node) -> list[Json]:
        count[0] += 1
        found = path.find(node)
        if not found:
            count[1] += 1
        elif all(hit is None for hit in found):
            count[2] += 1
        return found

    return hits


def compile_hits(value: Value, stats: PathStats) -> Hits:
    """Return a value with its modifiers, as a function that gives hits."""
    hits = _compile_each(value, _compile_form(value, stats))
    if value.pick is not None:
        pick, start = compile_single(value.pick, stats), value.pick.count_from
        hits = _pick_hits(hits, pick, start, _value_name(value))
    for stage in _hit_stages(value):
        hits = stage(hits)
    return hits


def _compile_form(value: Value, stats: PathStats) -> Hits:
    if value.kind == "literal":
        return lambda _node: [value.literal]
    if value.kind == "template":
        return _compile_template(value, stats)
    if value.kind == "concat":
        parts = [compile_text(part, stats) for part in value.parts]
        return lambda node: [part(node) or None for part in parts]
    if value.kind == "any_of":
        return _compile_any_of(value, stats)
    if tree := value.tree:
        text = compile_text(tree.text, stats)
        return lambda node: [text(inner) or None for inner in tree_nodes(tree, node)]
    if value.path is None:
        raise ValueError("a path value without a path")
    return path_hits(value.path, stats)


def _compile_template(value: Value, stats: PathStats) -> Hits:
    pieces: list[str | Text] = [
        piece if isinstance(piece, str) else compile_text(Value(kind="path", path=piece), stats)
        for piece in value.template
    ]

    def hits(node: Node) -> list[Json]:
        filled = []
        for piece in pieces:
            if isinstance(piece, str):
                filled.append(piece)
                continue
            text = piece(node)
            if text is None or is_blank(text):
                return []
            filled.append(text)
        return ["".join(filled)]

    return hits


_UNFIT = ("not_a_list", "not_text")  # another alternative may fit what stands there


def _compile_any_of(value: Value, stats: PathStats) -> Hits:
    parts = [(compile_hits(p, stats), p.sep, _value_name(p)) for p in value.parts]

    def hits(node: Node) -> list[Json]:
        unfit: RowError | None = None
        for part, sep, name in parts:
            try:
                found = part(node)
                text = join_hits(found, sep, name)
            except RowError as error:  # a text where others have a list of blocks, or so
                if error.reason not in _UNFIT:
                    raise
                unfit = unfit or error
                continue
            if not is_blank(text):
                # A part that says how its hits are joined is one text; others stay several hits.
                several = sep != "\n" and sum(hit is not None for hit in found) > 1
                return [text] if several else found
        if unfit is not None:
            raise unfit
        return []

    return hits


def _compile_each(value: Value, form: Hits) -> Hits:
    if not value.each:
        return form
    return lambda node: [hit for element in each_nodes(value.each, node) for hit in form(element)]


def _pick_hits(hits: Hits, pick: Single, start: int, name: str | None) -> Hits:
    def picked(node: Node) -> list[Json]:
        choice = pick(node)
        if choice is None or choice == "":
            return []
        found = hits(node)
        place = choice_index(choice, start)
        if place is None or place >= len(found):
            raise RowError("bad_pick", name, f"{found_text(choice)} of {len(found)}")
        # The places before it stay, so that a label names the one in the full list.
        return [*[None] * place, found[place]]

    return picked


def choice_index(choice: Json, start: int) -> int | None:
    """Return the place that a number (from `start`) or a letter names, None if it names none."""
    if isinstance(choice, bool):
        return None
    if isinstance(choice, str):
        if len(choice) == 1 and choice.isascii() and choice.isalpha():
            return ord(choice.upper()) - ord("A")
        if not (choice.isascii() and choice.isdigit() and len(choice) <= _MAX_DIGITS):
            return None
        choice = int(choice)
    whole = isinstance(choice, int) or (isinstance(choice, float) and choice.is_integer())
    return int(choice) - start if whole and choice >= start else None


def _hit_stages(value: Value) -> Iterator[Callable[[Hits], Hits]]:
    name = _value_name(value)
    if value.map is not None:
        yield _map_hits(_mapper(value.map, name))
    if value.as_json:
        yield _map_hits(lambda hit: _spell_json(hit, name) if isinstance(hit, list | dict) else hit)
    if value.replace:
        swap = compile_replace(value.replace)
        yield _map_hits(lambda hit: swap(json_text(hit, name)))
    if value.label is not None:
        yield _labeller(value.label, name)


def _map_hits(one: Callable[[Json], Json]) -> Callable[[Hits], Hits]:
    def stage(hits: Hits) -> Hits:
        return lambda node: [None if hit is None else one(hit) for hit in hits(node)]

    return stage


def _mapper(table: dict[str, Json], name: str | None) -> Callable[[Json], Json]:
    def look_up(hit: Json) -> Json:
        text = json_text(hit, name)
        if text in table:
            return table[text]
        if "*" in table:
            return table["*"]
        raise RowError("unmapped_value", name, found_text(text))

    return look_up


def compile_replace(table: dict[str, str]) -> Callable[[str], str]:
    """Return what stands in a table replaced in a text, the leftmost first, there the longest."""
    pattern = re.compile("|".join(map(re.escape, sorted(table, key=len, reverse=True))))
    longest = max(map(len, table.values()))

    def swap(text: str) -> str:
        if longest > _LONG:
            count_looks(len(pattern.findall(text)) * longest)
        return pattern.sub(lambda match: table[match.group()], text)

    return swap


def number_label(label: str, place: int) -> str:
    """Return the label of a hit by its position: `A. `, `B. `, ...; after Z come AA, AB."""
    style = next(c for c in label if c in "Aa10")
    if style in "10":
        return label.replace(style, str(place + int(style)), 1)
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        letters = chr(ord(style) + letter) + letters
    return label.replace(style, letters, 1)


def _labeller(label: str, name: str | None) -> Callable[[Hits], Hits]:
    label_of = lru_cache(maxsize=1024)(partial(number_label, label))

    def stage(hits: Hits) -> Hits:
        def labelled(node: Node) -> list[Json]:
            texts = [None if hit is None else json_text(hit, name) for hit in hits(node)]
            return [label_of(i) + t if t else None for i, t in enumerate(texts)]

        return labelled

    return stage


def join_hits(hits: Iterable[Json], sep: str, name: str | None) -> str | None:
    """Return the text of hits: null and empty ones dropped, joined by `sep`.

    None if nothing was there.
    """
    there = [hit for hit in hits if hit is not None]
    if len(there) == 1:
        return json_text(there[0], name)
    if not there:
        return None
    return sep.join(text for hit in there if (text := json_text(hit, name)))


def compile_text(value: Value, stats: PathStats) -> Text:
    """Return a value as a function that gives its text, None if nothing is there."""
    if value.is_bare and value.kind == "path" and value.path and value.path.single:
        return _compile_single_text(value.path, value.path.single, stats)
    if value.is_bare and value.kind == "concat":
        return _compile_parts([compile_text(part, stats) for part in value.parts])
    hits = compile_hits(value, stats)
    sep, name = value.sep, _value_name(value)
    return lambda node: join_hits(hits(node), sep, name)


def _compile_single_text(path: Path, single: Callable[[Node], Json], stats: PathStats) -> Text:
    """The short cut for the most common value: a path that leads to one place at most."""
    count = stats.counter(path)
    name = path.text

    def text(node: Node) -> str | None:
        count[0] += 1
        found = single(node)
        if found.__class__ is str:
            return found
        if found is MISSING:
            count[1] += 1
            return None
        if found is None:
            count[2] += 1
            return None
        return json_text(found, name)

    return text


def _compile_parts(parts: list[Text]) -> Text:
    """The short cut for a concatenation without modifiers: parts that say nothing are dropped."""

    def text(node: Node) -> str | None:
        return "\n".join([found for part in parts if (found := part(node))]) or None

    return text


def compile_single(value: Value, stats: PathStats) -> Single:
    """Return a function that gives a value as JSON: one hit keeps its type, several are text."""
    hits = compile_hits(value, stats)
    sep, name = value.sep, _value_name(value)

    def single(node: Node) -> Json:
        there = [hit for hit in hits(node) if hit is not None]
        return there[0] if len(there) == 1 else join_hits(there, sep, name)

    return single


def _value_name(value: Value) -> str | None:
    """The path that messages about a value name: its own, or the first inside it."""
    if value.path or value.tree:
        return value.paths()[0].text
    paths = [part for part in value.template if isinstance(part, Path)]
    if paths:
        return paths[0].text
    return next((name for part in value.parts if (name := _value_name(part))), None)
