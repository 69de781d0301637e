"""The end of a run over a lake: repeats across its data sets, the corpus, catalog and page."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ingot.agent.lake.order import LakeOrder
from ingot.converters.lake import duplicates
from ingot.converters.lake.facts import SetFacts

_DROPS: Final = "drops"


def finish(
    order: LakeOrder, sets: Sequence[SetFacts], tell: Callable[[str], None]
) -> list[SetFacts]:
    """What can only be told once every data set has come to its end; the facts with it.

    Raises:
        OutputError: something cannot be written.
        ConversionError: a result is not what it was.
    """
    tell("repeats")
    found = _duplicates(order, sets)
    return [_with_repeats(one, found) for one in sets]


def _duplicates(order: LakeOrder, sets: Sequence[SetFacts]) -> duplicates.Duplicates:
    files = {one.name: order.hashes(one.name) for one in sets if one.status == "converted"}
    drops = order.state.folder / _DROPS if order.dedup else None
    return duplicates.find(files, drops)


def _with_repeats(one: SetFacts, found: duplicates.Duplicates) -> SetFacts:
    told = found.sets.get(one.name)
    if told is None:
        return one
    return replace(one, across=told.across, overlaps=dict(told.overlaps))
