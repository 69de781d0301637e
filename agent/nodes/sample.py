"""sample: rows spread over the source; the state keeps only their number."""

from ingot.agent.context import Context
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.redaction import redact
from ingot.agent.state import Order, State
from ingot.converters.errors import SourceError


def sample(state: State, context: Context) -> State:
    """Draw the sample, so that a source that cannot be read fails before anything is proposed.

    Raises:
        SourceError: the source cannot be read, or not one sampled row of it can.
    """
    order = Order(**state["order"])
    drawn = context.sample(order.source, stated_spec(order))
    if drawn.bad and not drawn.rows:
        first = drawn.bad[0]
        problem = f"none of {len(drawn.bad)} sampled rows can be read"
        hint = f"{first.file} row {first.bad.row}: {redact(first.bad.detail)}"
        raise SourceError(order.source, problem, hint)
    return {
        "sample": {
            "rows": len(drawn.rows),
            "bad": len(drawn.bad),
            "complete": drawn.complete,
            "total_rows": drawn.total_rows,
        }
    }
