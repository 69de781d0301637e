"""sample: rows spread over the source; the state keeps only their number."""

from ingot.agent.context import Context
from ingot.agent.nodes.discover import stated_spec
from ingot.agent.state import Order, State


def sample(state: State, context: Context) -> State:
    """Draw the sample, so that a source that cannot be read fails before anything is proposed."""
    order = Order(**state["order"])
    drawn = context.sample(order.source, stated_spec(order))
    return {
        "sample": {
            "rows": len(drawn.rows),
            "bad": len(drawn.bad),
            "complete": drawn.complete,
            "total_rows": drawn.total_rows,
        }
    }
