"""A review as commands of a GitHub job: notes at the lines of the mappings.

A command is one line, `::error file=a.json,line=3,title=...::message`. In a message GitHub reads
`%25`, `%0D` and `%0A` as %, CR and LF; in a property also `%3A` and `%2C` as `:` and `,`. So
nothing from data ends a property or a line. A step may show ten errors and ten warnings.
"""

from collections.abc import Iterator

from ingot.agent.review.escaping import seen, told
from ingot.agent.review.sections import by_level
from ingot.converters.rows import Json

MOST = 10
_LONGEST = 1_000
_COMMANDS = {"block": "error", "warn": "warning"}


def annotations(review: dict[str, Json]) -> list[str]:
    """The commands, errors first, without line breaks.

    Args:
        review: a review document.
    """
    return [*_of_level(review, "block"), *_of_level(review, "warn")]


def _of_level(review: dict[str, Json], level: str) -> Iterator[str]:
    """At most ten; the last one says how many there are more of."""
    found = [
        (mapping, reason)
        for mapping in by_level(review["mappings"])
        for reason in mapping["reasons"]
        if reason["level"] == level
    ]
    for place, (mapping, reason) in enumerate(found[:MOST], start=1):
        left = len(found) - MOST if place == MOST else 0
        yield _command(mapping, reason, left)


def _command(mapping: dict[str, Json], reason: dict[str, Json], left: int) -> str:
    title = f"ingot review: {told(reason['rule'], 60)}"
    line = [f"line={reason['line']}"] if reason["line"] else []
    # The name of a file is not redacted: by any other one the note finds no place.
    file = _property(mapping["path"])
    message = told(reason["text"], _LONGEST)
    if left > 0:
        message += f" (and {left} more: the report has all)"
    listed = ",".join([f"file={file}", *line, f"title={_property(title)}"])
    return f"::{_COMMANDS[reason['level']]} {listed}::{_message(message)}"


def _message(text: str) -> str:
    return seen(text).replace("%", "%25")


def _property(text: str) -> str:
    """No line breaks to escape: they are signs already."""
    return _message(text).replace(":", "%3A").replace(",", "%2C")
