"""Rows that are one attribute of a thing each: the text is the value of one attribute."""

from dataclasses import replace

from ingot.agent.proposing.columns import Column, View
from ingot.agent.proposing.readings import Draft
from ingot.agent.proposing.rules.documents.running_text import document_drafts
from ingot.converters.rows import Json

_MOST_NAMES = 40
_OFTEN = 2  # rows of a thing, on average


def attribute_drafts(view: View) -> list[Draft]:
    """The draft that takes the rows of the attribute that holds the text."""
    plain = [c for c in view.columns if not c.many and c.fill == 1]
    value = max((c for c in view.columns if not c.many), key=lambda c: c.chars, default=None)
    found = [
        (by, name) for by in plain for name in plain if value and _are_attributes(by, name, value)
    ]
    if not found or value is None or view.each:
        return []
    by, name = max(found, key=lambda one: one[0].distinct)
    things: dict[str, dict[str, Json]] = {}
    for key, attribute, text in zip(by.texts, name.texts, value.texts, strict=True):
        things.setdefault(key, {})[attribute] = text
    best = next(iter(document_drafts(View.of(list(things.values())))), None)
    texts = [path for path in (best.used if best else ()) if path in name.present]
    if best is None or not texts:
        return []
    sizes = {
        path: sum(len(str(thing.get(path, ""))) for thing in things.values()) for path in texts
    }
    body = max(texts, key=lambda path: sizes[path])
    most = best.most if "where" not in best.body else min(best.most, 0.55)
    where: list[Json] = [{"path": name.path, "in": [body]}]
    document: dict[str, Json] = {"text": value.path, "where": where}
    why = f"rows where {name.path} is {body} hold running text"
    used = frozenset([value.path, name.path])
    return [replace(best, body=document, why=why, used=used, most=most, evidence=())]


def _are_attributes(by: Column, name: Column, value: Column) -> bool:
    """Whether each thing has each attribute once, and the values of some are longer by far."""
    if len({by.path, name.path, value.path}) < 3 or not 3 <= name.distinct <= _MOST_NAMES:
        return False
    rows = len(name.texts)
    once = len(set(zip(by.texts, name.texts, strict=True))) == rows
    shared = rows >= _OFTEN * by.distinct and rows >= _OFTEN * name.distinct
    if not once or not shared or by.distinct < 3 or name.words > 3:
        return False
    lengths: dict[str, list[int]] = {}
    for attribute, text in zip(name.texts, value.texts, strict=True):
        lengths.setdefault(attribute, []).append(len(text))
    means = sorted(sum(one) / len(one) for one in lengths.values())
    return means[-1] > 10 * max(1.0, means[0])
