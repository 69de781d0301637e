"""`ingot check`: a mapping file against data."""

from typing import TYPE_CHECKING

from ingot.cli import options as o

if TYPE_CHECKING:
    from ingot.agent.context import Context
    from ingot.agent.state import State


def check(
    mapping: o.MappingArgument,
    source: o.SourceArgument,
    language: o.LanguageOption = None,
    source_name: o.SourceNameOption = None,
    allow_drift: o.AllowDriftOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Try a mapping on a sample of the data.

    Prints the gates, coverage per path, records and problems; exit code 1 if there is a problem.
    """
    from ingot.agent.context import Context
    from ingot.agent.direct import tried
    from ingot.agent.state import Order
    from ingot.cli.asking import mapping_file
    from ingot.converters.errors import ConversionError

    order = Order(
        source=source,
        mapper="file",
        mapping=mapping_file(mapping),
        mapping_file=str(mapping),
        language=language,
        source_name=source_name,
        dry_run=True,
        allow_drift=allow_drift,
    )
    context = Context()
    state = tried(order, context)
    _show(state, context, as_json=as_json)
    count = len(state["problems"])
    if count:
        found = f"{count} problem{'s' * (count != 1)} on a sample of {source}"
        raise ConversionError(str(mapping), found)


def _show(state: "State", context: "Context", *, as_json: bool) -> None:
    from ingot.agent.gates import of_state
    from ingot.agent.preview import preview
    from ingot.cli import show
    from ingot.cli.console import output, print_json

    gates = [gate.to_json() for gate in of_state(state)]
    if as_json:
        print_json({"check": state["check"], "gates": gates, "problems": state["problems"]})
        return
    console = output()
    if state["check"]:
        show.preview(console, preview(state, context))
        show.failures(console, state["check"])
        show.gates(console, gates)
        show.drift(console, state["check"])
    show.problems(console, state["problems"])
