"""What of a value or name may leave the machine: `none`, `redacted` or `raw`."""

from ingot.agent.mappers.showing.cleaning import shown_path
from ingot.agent.redaction import redact, redacted, shaped
from ingot.converters.rows import Json

_LONGEST_NAME = 2_000  # characters of a key that are looked at, far more than are shown


def shared(name: str, value: Json, share: str) -> tuple[str, Json]:
    """A scalar and its key as they may leave; a key can make a secret of its value."""
    if share == "raw":
        return name, value
    pair = {name[:_LONGEST_NAME]: value}
    made: dict[str, Json] = shaped(pair) if share == "none" else redacted(pair)
    return next(iter(made.items()))


def shared_text(name: str, text: str, share: str) -> str:
    """A text that stands under a key, as it may leave."""
    return str(shared(name, text, share)[1])


def shared_line(line: str, share: str) -> str:
    """A line about paths, whose names may hold secrets too."""
    return line if share == "raw" else redact(line)


def shared_path(path: str, share: str) -> str:
    """A path as it can be copied; one that holds a secret cannot, and says so."""
    plain = shown_path(path)
    told = shared_line(plain, share)
    return plain if told == plain else f"{told} (a name with a secret: cannot be addressed)"
