"""What a change does to the records of the sample: how many are others, and the first of them."""

from collections.abc import Iterator

from ingot.agent.context import Context
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.preview import cut, record_lines
from ingot.agent.redaction import hidden, named_secrets, redacted
from ingot.agent.review.examples import compared
from ingot.agent.review.matching import Difference, Matched, matched, placed, sampled_rows
from ingot.agent.state import Order, State
from ingot.agent.trial import Trial, try_out
from ingot.converters.errors import MappingError
from ingot.converters.rows import Json

_TEXT, _LINE, _MOST = 20_000, 160, 14


def effect(before: State, after: State, context: Context) -> Matched | None:
    """The records of two states' mappings, matched; None where one of them makes none.

    Raises:
        SourceError: the source cannot be read any more.
    """
    old, new = _trial(before, context), _trial(after, context)
    if old is None or new is None:
        return None
    order = Order(**after["order"])
    name = order.source_name or new.source.name
    sides = (placed(one, source_name=name) for one in (old, new))
    return matched(*sides, rows=(sampled_rows(old), sampled_rows(new)))


def _trial(state: State, context: Context) -> Trial | None:
    mapping = (state.get("proposal") or {}).get("mapping")
    if not mapping or not state.get("check"):
        return None
    try:
        return try_out(context, Order(**state["order"]), mapping, where="the mapping", show=0)
    except MappingError:
        return None


def difference_lines(one: Difference, order: Order, context: Context) -> list[str]:
    """What differs between the two records, as lines that begin with `- `, `+ ` or blanks.

    Args:
        one: a place at which the records are not the same.
        order: what was ordered; with `raw` values are shown as they are, else redacted, also those
            that are secret for the key that they have in their rows.
        context: what holds the sample.
    """
    if order.share_values == "raw":
        old, new = one.old, one.new
    else:
        _, sample = context.drawn(order.source, stated_spec(order))
        secrets = named_secrets([row.value for row in sample.rows])
        old, new = (redacted(hidden(side, secrets)) for side in (one.old, one.new))
    found = list(compared(list(_lines(old)), list(_lines(new))))
    left = len(found) - _MOST
    return found if left <= 0 else [*found[:_MOST], f"  ...(+{left} lines)"]


def _lines(record: dict[str, Json] | None) -> Iterator[str]:
    for name, text in record_lines(record, most=_TEXT) if record else ():
        first, *more = text.split("\n")
        yield f"{name}: {cut(first, _LINE)}"
        yield from (f"  {cut(line, _LINE)}" for line in more)
