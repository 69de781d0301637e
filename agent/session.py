"""Start, keep and resume runs for the command line, Python, chat and lake.

A run is done at once, made by a mapping file, or kept until a person has answered.

There is one kept run per destination. It is known by what was ordered and by the state of its
input, so the same command finds the run that waits for its review or was killed; a changed input or
option begins a new one in its place. A finished run is forgotten. Runs lie in one SQLite file under
INGOT_HOME that only its owner can read.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, NamedTuple

from ingot import __version__
from ingot.agent.context import RUNS_FILE, Context, state_home
from ingot.agent.model.sqlite_file import DATABASE_ERRORS, database_error, open_database
from ingot.agent.reporting.proposal_folder import check_unedited
from ingot.agent.state import Order, Review, State
from ingot.agent.steps.course import END, Run, advance, answer, approve, end
from ingot.converters.errors import (
    ConversionError,
    MappingError,
    ModelError,
    Problem,
    SourceError,
)
from ingot.converters.json_yaml import decode, encode, json_digest
from ingot.converters.rows import Json
from ingot.converters.sources import Source
from ingot.converters.sources.facts import absolute_location, input_stamp

if TYPE_CHECKING:
    from ingot.agent.model.endpoint import Endpoint

# What may differ between the command that stopped and the one that goes on.
_FREE = ("yes", "min_confidence", "overwrite", "workers", "allow_drift", "approve_counts")


def run_once(order: Order, context: Context) -> State:
    """Run to the end without being kept: a dry run, or a proposal alone."""
    return checked_state(advance(Run(state={"order": order}, context=context)))


def checked_state(state: State) -> State:
    """Return the state of a run; raise the error of a model that could not be asked."""
    stopped = state.get("stopped")
    if stopped is None or stopped.kind != "model":
        return state
    raise ModelError(stopped.where, stopped.why, stopped.hint, kind=stopped.fault or "")


# --- by a mapping file


def try_mapping(order: Order, context: Context) -> Run:
    """Run a mapping file on the sample; its run stands before anybody judges what came of it."""
    run = Run(state={"order": order}, context=context, step="discover")
    sample = advance(run, until="compare").get("sample")
    if not sample or not (sample.rows or sample.bad):
        left_out = context.locate(order).find_files(order.spec).left_out
        hint = "; ".join(f"{one.name}: {one.why}" for one in left_out[:3])
        raise SourceError(order.source, "holds no rows", hint)
    return run


def convert_mapping(
    order: Order, context: Context, approved: dict[str, int] | None = None
) -> State:
    """Convert by a mapping file; rows that the mapping does not fit are rejected and listed.

    Raises ConversionError where the mapping does not serve, and PartDone where the order is a part
    of a conversion.
    """
    run = try_mapping(order, context)
    check_serves(run.state)
    run.state = {**run.state, "approved": approved or {}}
    if order.dry_run:
        run.state = {**run.state, "review": Review(decision="dry_run")}
        return end(run)
    approve(run)
    advance(run)
    return end(run) if run.step != END else run.state


def check_serves(state: State) -> None:
    """Check that a mapping file finds in the sample what it needs. Raises ConversionError."""
    if fatal := [one for one in state["problems"] if _is_fatal_problem(one, state)]:
        order = state["order"]
        hint = "`check` lists every path with its rows"
        if order.mapping_file:
            hint = f"{shlex.join(['ingot', 'check', order.mapping_file, order.source])} shows more"
        raise ConversionError(order.mapping_file or "mapping", "; ".join(map(str, fatal)), hint)


def _is_fatal_problem(problem: Problem, state: State) -> bool:
    """Whether a problem on the sample forbids to convert: optional values and rare ones do not."""
    if problem.code != "unresolved_path":
        return False
    rare = "/any_of/" in problem.pointer and not state["sample"].complete
    check = state["check"]
    needs = {one.pointer: one.need for one in check.paths} if check else {}
    return needs.get(problem.pointer) != "optional" and not rare


# --- kept until a person has answered


@contextmanager
def open_runs(folder: Path | None = None) -> Iterator[Connection]:
    """Open the kept runs of the state folder; the file is made on first use with mode 600."""
    file = (folder or state_home()) / RUNS_FILE
    connection = open_database(file)
    try:
        with connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, key TEXT, step TEXT, "
                "state TEXT)"
            )
        yield connection
    except DATABASE_ERRORS as error:  # such as a full disk
        raise database_error(file, error) from error
    finally:
        connection.close()


@dataclass(kw_only=True, eq=False)
class Session:
    """A kept run that can be advanced; `key` tells it from another one into its destination."""

    runs: Connection
    run: Run
    key: str

    def begin(self) -> State:
        """Run to the review or the end, taking up what an earlier process left."""
        order = self.run.state["order"]
        check_unedited(order)
        kept = _find_run(self.runs, order)
        if kept and kept.key == self.key and kept.step != END:
            self.run.step, self.run.state = kept.step, {**kept.state, "order": order}
        else:
            self.forget()
        if self.is_at_rest():  # a budget may have been raised: the model is asked again
            self.run.apply({"stopped": None, "problems": ()})
        return self._go_on(advance)

    def answer(self, reply: Json, changed: State | None = None) -> State:
        """Go on from the review with `{"decisions": [...]}`, and with what else has changed."""
        self.run.state = {**self.run.state, **(changed or {})}
        return self._go_on(lambda run: answer(run, reply))

    def is_waiting(self) -> bool:
        """Return whether the run waits for its review."""
        return self.run.step == "review"

    def is_at_rest(self) -> bool:
        """Return whether the run stopped before a question: a budget or the model is gone."""
        return self.run.step == "pause"

    def forget(self) -> None:
        """Remove the run from what is kept."""
        with self.runs:
            name = _run_name(self.run.state["order"])
            self.runs.execute("DELETE FROM runs WHERE name = ?", (name,))

    def _go_on(self, how: Callable[[Run], State]) -> State:
        try:
            return checked_state(how(self.run))
        except (MappingError, ConversionError):
            self.forget()  # what cannot be converted is proposed and reviewed anew
            raise


class KeptRun(NamedTuple):
    """A run as it lies in the file."""

    key: str
    step: str
    state: State


@contextmanager
def open_session(order: Order, context: Context, *, home: Path | None = None) -> Iterator[Session]:
    """Open the run of an order, over those that are kept in the user's state folder."""
    source = context.locate(order).find_files(order.spec)
    key = session_key(order, source, context.asking.endpoint if context.asking else None)
    with open_runs(home) as runs:

        def keep(_: str) -> None:
            row = _run_name(order), key, run.step, json.dumps(encode(run.state, State))
            with runs:
                runs.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", row)

        run = Run(state={"order": order}, context=context, on_step=keep)
        yield Session(runs=runs, run=run, key=key)


def kept_state(order: Order, home: Path) -> State | None:
    """Return the state of the run that waits for a destination; None where none does."""
    if not (home / RUNS_FILE).is_file():
        return None
    with open_runs(home) as runs:
        kept = _find_run(runs, order)
    return kept.state if kept else None


def _find_run(runs: Connection, order: Order) -> KeptRun | None:
    chosen = "SELECT key, step, state FROM runs WHERE name = ?"
    row = runs.execute(chosen, (_run_name(order),)).fetchone()
    try:
        return KeptRun(row[0], row[1], decode(State, json.loads(row[2]))) if row else None
    except (ValueError, TypeError, KeyError, AttributeError):  # another version kept it: begin anew
        return None


def _run_name(order: Order) -> str:
    """The name of the run into a destination."""
    out = str(Path(order.out or "").resolve())
    return hashlib.sha256(out.encode()).hexdigest()[:32]


def session_key(order: Order, source: Source, endpoint: "Endpoint | None" = None) -> str:
    """Return a hash of the order, this version, the model, and the input's place and files."""
    document = {key: value for key, value in encode(order).items() if key not in _FREE}
    document |= {"source": absolute_location(source.location), "version": __version__}
    document["model"] = [endpoint.url, endpoint.model] if endpoint else None
    document["files"] = [input_stamp(file) for file in source.files]
    return json_digest(document)
