"""Draft conversations from trees of replies, and documents from trees of sections."""

from collections.abc import Sequence
from dataclasses import dataclass

from ingot.agent.proposing.columns import (
    Column,
    View,
    last_name,
    parent_path,
    total_chars,
    values_at,
)
from ingot.agent.proposing.names import CLEAR, name_strength
from ingot.agent.proposing.proposal import Evidence
from ingot.agent.proposing.readings import Draft, join_parts
from ingot.agent.proposing.rules.documents.running_text import is_prose_part
from ingot.converters.paths import Node, quote_name
from ingot.converters.rows import Json

_DEPTH = 8  # levels; a deeper one is a row error, no loss
_LEAST_SHARE = 0.3  # of the characters of the running text that lie in the tree
_ROWS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class SectionTree:
    """A list whose elements hold a list of elements like them.

    `element` is the path of an element, `texts` are the paths of its texts inside it, `children`
    that of the list below it.
    """

    element: str
    texts: tuple[str, ...]
    children: str
    chars: int


def find_section_tree(view: View) -> SectionTree | None:
    """Return the tree of sections with most text, None if there is none."""
    facts = {f.path: f for f in view.facts.paths}
    places = []
    for path, path_facts in facts.items():
        head, _, key = path.rpartition("[*].")
        if not head or not path_facts.types.get("list") or "[" in key or "." in key or "[" in head:
            continue
        element, child = f"{head}[*]", f"{path}[*]"
        fields = _text_fields(facts, element)
        below = _text_fields(facts, child)
        shared = [name for name in fields if name in below]
        if (
            len(shared) < 1
            or len(shared) < len(below) / 2
            or not _has_prose(facts, element, shared)
        ):
            continue
        chars = sum(
            f.chars.total for p, f in facts.items() if p.startswith(f"{element}.") and f.chars
        )
        places.append(
            SectionTree(
                element=element, texts=tuple(fields), children=f"{key}[*]", chars=round(chars)
            )
        )
    return max(places, key=lambda tree: tree.chars, default=None)


def _text_fields(facts: dict[str, Json], element: str) -> list[str]:
    """The texts and lists of texts right inside the elements, in their order."""
    names = []
    for path, path_facts in facts.items():
        inner = path.removeprefix(f"{element}.")
        plain = inner.removesuffix("[*]")
        if inner == path or "." in plain or "[" in plain or not path_facts.types.get("string"):
            continue
        looks = max(
            path_facts.looks.get(look, 0.0) for look in ("url", "uuid", "hash", "time", "number")
        )
        kind = max(name_strength(plain, slot) for slot in ("id", "label", "url", "author"))
        if looks < 0.5 and kind < 0.9:
            names.append(inner)
    return names


def _has_prose(facts: dict[str, Json], element: str, names: Sequence[str]) -> bool:
    field_facts = [facts[f"{element}.{name}"] for name in names]
    return any(facts.looks.get("prose", 0.0) > 0.5 for facts in field_facts)


def section_tree_drafts(view: View) -> list[Draft]:
    """Return the draft of a document whose text lies in a tree of sections."""
    tree = find_section_tree(view)
    if tree is None:
        return []
    flat = [c for c in view.columns if not c.many and is_prose_part(c)]
    flat.sort(key=lambda c: (c.named("title") < CLEAR, c.position))
    share = tree.chars / max(1, sum(c.chars for c in flat) + tree.chars)
    if share < _LEAST_SHARE:
        return []
    value = {
        "tree": tree.element,
        "text": join_parts(list(tree.texts)),
        "children": tree.children,
        "depth": _DEPTH,
    }
    body: dict[str, Json] = {"text": join_parts([*(c.path for c in flat), value])}
    if lead := _lead_of_all(flat, view, tree):
        body["where"] = [{"path": lead.path, "min_chars": 1}]
    inside = [f.path for f in view.facts.paths if f.path.startswith(f"{tree.element}.") and f.chars]
    return [
        Draft(
            kind="pt",
            body=body,
            score=min(0.95, 0.7 + 0.3 * share),
            why=f"{tree.element} is a tree of sections",
            used=frozenset([*inside, *(c.path for c in flat)]),
            evidence=(
                Evidence(
                    target="text",
                    choice=f"{tree.element} with its {tree.children}",
                    why=f"{share:.0%} of the running text, elements of one kind at every level",
                    confidence=0.85,
                ),
            ),
        )
    ]


def _lead_of_all(flat: Sequence[Column], view: View, tree: SectionTree) -> Column | None:
    """A text that every row with sections has; rows without it are no documents."""
    leads = [c for c in flat if c.named("title") < CLEAR and c.words >= 4]
    rows = [Node(node.value) for node in view.nodes[:_ROWS]]
    for lead in leads[:1]:
        both = zip(lead.texts, rows, strict=False)
        if all(text.strip() or not values_at(tree.element, row) for text, row in both):
            return lead
    return None


MAX_DEPTH = 24


def _recursive_places(view: View) -> list[tuple[str, str]]:
    """(path of a message, key of its replies) where the replies hold replies under the same key."""
    places = []
    paths = {facts.path for facts in view.facts.paths}
    for facts in view.facts.paths:
        key = last_name(facts.path)
        deeper = f"{facts.path}[*].{key}"
        plain = "[" not in facts.path and quote_name(key) == key
        if plain and facts.types.get("list") and deeper in paths:
            places.append((parent_path(facts.path), key))
    return places


def _reply_depth(value: Json, key: str) -> int:
    depth = 0
    while isinstance(value, dict) and isinstance(value.get(key), list) and value[key]:
        value = value[key][0]
        depth += 1
    return depth


def _message_text_key(view: View, head: str) -> str | None:
    prefix = "" if head == "$" else f"{head}."
    fields = [
        f
        for f in view.facts.paths
        if f.path.startswith(prefix)
        and f.path.count(".") == prefix.count(".")
        and f.chars
        and "[" not in f.path
    ]
    ranked = [(name_strength(last_name(f.path), "utterance"), total_chars(f), f) for f in fields]
    best = max(ranked, key=lambda item: item[:2], default=None)
    return last_name(best[2].path) if best and best[0] >= 0.5 else None


def tree_drafts(view: View) -> list[Draft]:
    """Draft mappings for rows that are reply trees."""
    drafts = []
    for head, key in _recursive_places(view):
        text = _message_text_key(view, head)
        if text is None:
            continue
        tops = [values_at(head, node) for node in view.nodes]
        depth = min(MAX_DEPTH, max((_reply_depth(top[0], key) for top in tops if top), default=0))
        stem = "" if head == "$" else f"{head}."
        paths = [stem + f"{key}[0]." * level + text for level in range(depth + 1)]
        messages = [
            {"role": ("user", "assistant")[level % 2], "content": path}
            for level, path in enumerate(paths)
        ]
        place = "every row" if head == "$" else head
        drafts.append(
            Draft(
                kind="sft",
                body={"messages": messages},
                score=0.9,
                why=f"{place} is a tree of replies; the first path is taken",
                used=frozenset(paths),
            )
        )
    return drafts


def has_branches(view: View, element: str) -> bool:
    """Return whether messages keyed by id name their replies, and some have several.

    Read in the order of the file, such a conversation would hold every version of a reply.
    """
    if not element.endswith(".*"):
        return False
    return any(_names_several_replies(node, element) for node in view.nodes)


def _names_several_replies(node: Node, element: str) -> bool:
    keyed = next(iter(values_at(element.removesuffix(".*") or "$", node)), None)
    if not isinstance(keyed, dict):
        return False
    messages = (
        value
        for mapping in keyed.values()
        if isinstance(mapping, dict)
        for value in mapping.values()
    )
    lists = [value for value in messages if isinstance(value, list) and len(value) > 1]
    return any(all(isinstance(name, str) and name in keyed for name in names) for names in lists)
