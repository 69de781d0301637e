"""What is wrong in a stream, for people."""

from ingot.converters.monolith.contract import REASONS
from ingot.converters.monolith.records import Bad


def complaint(bad: Bad) -> str:
    """Where it is, what is wrong and what was found."""
    row = "" if bad.row is None else f", row {bad.row:,}"
    if bad.reason == "unreadable":  # it has no place
        return f"{REASONS[bad.reason]}, {bad.detail}"
    detail = f": {bad.detail}" if bad.detail else ""
    return f"record {bad.record:,}{row}, offset {bad.offset:,}: {REASONS[bad.reason]}{detail}"
