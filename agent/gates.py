"""What must hold before a proposal is converted without a person looking at it."""

from collections.abc import Iterator

from ingot.converters.errors import Problem
from ingot.converters.rows import Json


def failed(problems: list[dict[str, Json]]) -> list[str]:
    """The gates that a proposal fails on its sample, each as one line; empty = it passes.

    The check has found every problem there is: paths that resolve nowhere, values without a role,
    texts that are no texts, too few rows that convert.
    """
    return [str(Problem(**one)) for one in problems]


def needs_person(proposal: dict[str, Json]) -> list[str]:
    """What only a person may approve, however well it converts.

    A `system` text of a model's own would go into every record; a row could have planted it.
    """
    if proposal["mapper"] != "llm":
        return []
    literals = _system_literals(proposal["mapping"] or {})
    return [f"the model wrote a system message of its own: {text[:200]!r}" for text in literals]


def _system_literals(document: dict[str, Json]) -> Iterator[str]:
    yield from _literals(document.get("system"))
    for message in document.get("messages") or []:
        if message["role"] == "system":
            yield from _literals(message["content"])


def _literals(value: Json) -> Iterator[str]:
    if isinstance(value, list):
        for part in value:
            yield from _literals(part)
    elif isinstance(value, dict):
        if "literal" in value:
            yield str(value["literal"])
        for key in ("concat", "any_of"):
            yield from _literals(value.get(key))
