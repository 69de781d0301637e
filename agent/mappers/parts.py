"""The parts of a mapping document, walked: its alternatives, a message's roles, every text."""

from collections.abc import Iterator

from ingot.converters.rows import Json

Document = dict[str, Json]

ROLES = ("user", "assistant", "system", "tool")


def layouts(document: Document) -> Iterator[tuple[str, Document]]:
    """The mapping and its alternatives, each with its JSON Pointer."""
    yield "", document
    for number, variant in enumerate(document.get("any_of") or []):
        yield f"/any_of/{number}", variant


def roles_of(role: Json) -> tuple[Json, ...]:
    """The roles that a message may have."""
    if isinstance(role, dict):
        named = role.get("map") or role.get("split")
        return tuple(named.values()) if named else ROLES
    return tuple(role) if isinstance(role, list) else (role,)


def strings(value: Json) -> Iterator[str]:
    """Every text anywhere in a value: paths, literals and names; keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from strings(inside)
