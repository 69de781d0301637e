"""What of a value may leave the machine: `none`, `redacted` or `raw`."""

from ingot.agent.redaction import redacted, shaped
from ingot.converters.rows import Json


def shared(name: str, value: Json, share: str) -> tuple[str, Json]:
    """A scalar and its key as they may leave; a key can make a secret of its value."""
    if share == "raw":
        return name, value
    pair = {name: value}
    made: dict[str, Json] = shaped(pair) if share == "none" else redacted(pair)
    return next(iter(made.items()))


def shared_text(name: str, text: str, share: str) -> str:
    """A text that stands under a key, as it may leave."""
    return str(shared(name, text, share)[1])
