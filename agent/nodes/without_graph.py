"""A mapping file tried or converted without the graph: no mapper, no review, no checkpoint."""

from ingot.agent.context import Context
from ingot.agent.nodes.convert import convert
from ingot.agent.nodes.discover import discover, sample, spec_of_order
from ingot.agent.nodes.propose import propose
from ingot.agent.nodes.report import report
from ingot.agent.nodes.validate import validate
from ingot.agent.state import Order, Review, State
from ingot.converters.errors import ConversionError, Problem, SourceError


def try_mapping(order: Order, context: Context) -> State:
    """The state after a mapping file was run on the sample."""
    state: State = {"order": order}
    for node in (discover, sample, propose, validate):
        state = {**state, **node(state, context)}
    if not state["sample"].rows and not state["sample"].bad:
        left_out = context.source(order.source, spec_of_order(order)).left_out
        hint = "; ".join(f"{one.name}: {one.why}" for one in left_out[:3])
        raise SourceError(order.source, "no row of data in it", hint)
    return state


def convert_mapping(order: Order, context: Context) -> State:
    """The state after a conversion; rows that the mapping does not fit are rejected and listed."""
    state = try_mapping(order, context)
    fatal = [one for one in state["problems"] if _is_fatal_problem(one, state)]
    if fatal:
        where = order.mapping_file or "mapping"
        said = "; ".join(map(str, fatal))
        raise ConversionError(where, said, f"ingot check {where} {order.source} shows more")
    state = {**state, "review": Review(decision="dry_run" if order.dry_run else "approve")}
    if not order.dry_run:
        state = {**state, **convert(state, context)}
    return {**state, **report(state)}


def _is_fatal_problem(problem: Problem, state: State) -> bool:
    """Whether a problem on the sample forbids to convert.

    An optional value that is nowhere is null and counted, other problems are those of single rows.
    An alternative may be for rows that an incomplete sample does not hold.
    """
    if problem.code != "unresolved_path":
        return False
    rare = "/any_of/" in problem.pointer and not state["sample"].complete
    check = state["check"]
    needs = {one.pointer: one.need for one in check.paths} if check else {}
    return needs.get(problem.pointer) != "optional" and not rare
