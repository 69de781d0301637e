"""Budgets of a run over a lake: what all its processes spend, held together.

A request is reserved before it is sent and settled when it is answered, so that processes which ask
at the same time pass no limit together. What a run that was killed spent stays counted until a run
of the lake comes to its end.
"""

import os
from typing import Final

from ingot.agent.lake.state import State
from ingot.agent.model.budget import (
    Ledger,
    Limits,
    Price,
    Spent,
    check_limits,
    check_wait,
)
from ingot.converters.rows import Json

_NOTE: Final = "spent"
_RUN: Final = "run"


class LakeLedger(Ledger):
    """The ledger of one process of a run over a lake.

    Args:
        state: where the processes meet.
        run: limits of the run over the lake, all processes together.
        data_set: limits of one data set.
        price: of the model; None = unknown.
    """

    def __init__(self, state: State, run: Limits, data_set: Limits, price: Price | None) -> None:
        super().__init__(data_set=data_set, price=price)
        self._state, self._of_run = state, run

    @property
    def run(self) -> Spent:
        """What all processes of the run spent or have reserved."""
        return _total(self._state.note(_NOTE))

    def check(self, tokens_in: int, tokens_out: int) -> None:
        """See that one more request is within every limit, and reserve it.

        Raises:
            BudgetReached: it is not.
        """
        super().check(tokens_in, tokens_out)

        def reserved(note: Json) -> Json:
            check_limits(_RUN, self._of_run, _total(note), self.price, tokens_in, tokens_out)
            cost = self.cost(tokens_in, tokens_out)
            wanted = Spent(calls=1, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost)
            return _with(note, wanted)

        self._state.change_note(_NOTE, reserved)

    def check_wait(self, seconds: float) -> None:
        """Whether so long a wait leaves time to ask again.

        Raises:
            BudgetReached: the time would be up.
        """
        super().check_wait(seconds)
        check_wait(_RUN, self._of_run, self.run, seconds)

    def add(self, spent: Spent) -> None:
        """Count what one request or wait spent, in place of what was reserved for it."""
        super().add(spent)
        self._state.change_note(_NOTE, lambda note: _with(_settled(note, spent), None))

    def seconds_left(self) -> float | None:
        """The time that is left, never below 0; None = no limit."""
        of_set, most = super().seconds_left(), self._of_run.seconds
        left = [] if most is None else [max(0.0, most - self.run.seconds)]
        return min([*left, *([] if of_set is None else [of_set])], default=None)


def begin_run(state: State) -> None:
    """See to it that what a killed run had reserved counts as spent: it may have been sent."""
    note = state.note(_NOTE)
    if note is not None:
        state.keep_note(_NOTE, {"spent": _total(note).to_json(), "reserved": {}})


def spent(state: State) -> Spent:
    """What the run has spent so far."""
    return _total(state.note(_NOTE))


def end_run(state: State) -> Spent:
    """What the run spent; the next one begins with nothing spent."""
    total = spent(state)
    state.keep_note(_NOTE, None)
    return total


def _total(note: Json) -> Spent:
    if note is None:
        return Spent()
    parts = [note["spent"], *note["reserved"].values()]
    return sum(map(Spent.from_json, parts), Spent())


def _with(note: Json, wanted: Spent | None) -> Json:
    """The note with what this process has reserved now; None = nothing."""
    note = note or {"spent": Spent().to_json(), "reserved": {}}
    others = {pid: one for pid, one in note["reserved"].items() if pid != str(os.getpid())}
    mine = {} if wanted is None else {str(os.getpid()): wanted.to_json()}
    return {**note, "reserved": {**others, **mine}}


def _settled(note: Json, spent: Spent) -> Json:
    note = note or {"spent": Spent().to_json(), "reserved": {}}
    return {**note, "spent": (Spent.from_json(note["spent"]) + spent).to_json()}
