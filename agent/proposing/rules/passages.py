"""Find the passages that a record lists beside its question.

A passage keeps its title, and passages keep their order. What a search found, with a mark at what
is of use, is not context.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ingot.agent.proposing.columns import View, last_name, parent_path, total_chars, values_at
from ingot.agent.proposing.names import NAMED, PLAIN, name_strength
from ingot.converters.paths import quote_name
from ingot.converters.rows import Json
from ingot.converters.sources.profile import PathFacts
from ingot.converters.sources.text_kinds import count_words

_OF_SEARCH = re.compile(r"select|click|relevan|retriev", re.IGNORECASE)
_LEAST_WORDS = 5
_BODIES = ("context", "body", "utterance")


@dataclass(frozen=True, kw_only=True)
class Passages:
    """Passages of a record.

    Attributes:
        value: gives all of them; None where they are better left out.
        head: the place where they stand.
    """

    value: Json
    head: str


def find_passages(view: View) -> Passages | None:
    """Return the passages that a record lists beside its question, None if there are none."""
    for facts in view.facts.paths:
        if facts.path == "$" or "[*]" in facts.path:
            continue
        if name_strength(last_name(facts.path), "context") < NAMED:
            continue
        below = (f"{facts.path}.", f"{facts.path}[*].")
        if any(_is_selection_flag(f) for f in view.facts.paths if f.path.startswith(below)):
            return Passages(value=None, head=facts.path)
        if facts.types.get("list"):
            value = _nested_passages(view, facts.path) or _object_passages(view, facts.path)
        elif facts.types.get("object"):
            value = _parallel_passages(view, facts.path)
        else:
            value = None
        if value is not None:
            return Passages(value=value, head=facts.path)
    return None


def _nested_passages(view: View, head: str) -> Json:
    """Lists in a list: `[title, [sentence, ...]]`, or the sentences of each passage."""
    elements = [e for node in view.nodes for e in values_at(f"{head}[*]", node)]
    if not elements or not all(isinstance(e, list) and e for e in elements):
        return None
    if all(_is_text_list(e) for e in elements) and not all(len(e) == 2 for e in elements):
        return {"path": f"{head}[*][*]"}
    titled = all(len(e) == 2 and isinstance(e[0], str) for e in elements)
    if not titled:
        return None
    if all(_is_text_list(e[1]) for e in elements):
        return {"each": f"{head}[*]", "concat": ["[0]", "[1][*]"]}
    are_prose = all(isinstance(e[1], str) for e in elements) and _are_prose(
        [e[1] for e in elements]
    )
    return {"each": f"{head}[*]", "concat": ["[0]", "[1]"]} if are_prose else None


def _is_text_list(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _are_prose(texts: Sequence[str]) -> bool:
    return sum(map(count_words, texts)) >= _LEAST_WORDS * len(texts)


def _object_passages(view: View, head: str) -> Json:
    """Objects in a list, each with a text and perhaps a title."""
    inside = [f for f in view.facts.paths if f.path.startswith(f"{head}[*].") and f.chars]
    flat = [f for f in inside if f.path.count("[*]") == 1]
    titles = [f for f in flat if name_strength(last_name(f.path), "title") >= PLAIN]
    lists = [f for f in inside if f.path.endswith("[*]") and f.path.count("[*]") == 2]
    body = _longest_place([f for f in (*flat, *lists) if f not in titles])
    if body is None or not titles:
        return None
    within = [f.path.removeprefix(f"{head}[*].") for f in (titles[0], body)]
    return {"each": f"{head}[*]", "concat": list(within)}


def _is_selection_flag(facts: PathFacts) -> bool:
    """Whether a place says which results of a search are of use, as `is_selected` does."""
    number = facts.types.get("boolean") or facts.types.get("integer")
    return bool(number) and bool(_OF_SEARCH.search(last_name(facts.path)))


def _longest_place(places: Sequence[PathFacts]) -> PathFacts | None:
    """The place with the most text, under a name that a text goes by."""
    named = [
        f
        for f in places
        if max(name_strength(last_name(f.path), slot) for slot in _BODIES) >= 0.8
        and _are_prose(f.examples)
    ]
    return max(named, key=total_chars, default=None)


def _parallel_passages(view: View, head: str) -> Json:
    """Titles and texts in lists of their own, in step."""
    inside = [
        f for f in view.facts.paths if parent_path(f.path.split("[*]", 1)[0]) == head and f.chars
    ]
    lists = [f for f in inside if f.path.endswith("[*]")]
    title = next((f for f in lists if name_strength(last_name(f.path), "title") >= PLAIN), None)
    body = _longest_place([f for f in lists if f is not title])
    if title is None or body is None:
        return None
    name = f"{head}.{quote_name(last_name(body.path))}".replace(".[", "[")
    sentences = "[1][*]" if body.path.count("[*]") == 2 else "[1]"
    return {"each": [title.path, f"{name}[*]"], "concat": ["[0]", sentences]}
