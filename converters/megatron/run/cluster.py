"""Units of a build on a Ray cluster: every task works in a lane of its own.

A lane of a worker that died stays as it is: what it finished is in its journal, and counts. Whoever
does the rest begins another lane, so that nobody writes where a worker that is only slow goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ingot.converters.megatron.engines.engine import EngineChoice, EngineWrongError
from ingot.converters.megatron.metrics.messages import Message, MessageSummary
from ingot.converters.megatron.read.input_files import Unit, group_neighbours
from ingot.converters.megatron.run.pipeline import run_units
from ingot.converters.megatron.run.processes import Assignment, make_assignment
from ingot.converters.megatron.run.recipe import FileTally, UnitRun
from ingot.converters.megatron.write.lanes import take_lane
from ingot.converters.megatron.write.staging import finished_units
from ingot.converters.output.ray_workers import RayWorkers
from ingot.converters.output.worker_pool import results_in_order
from ingot.converters.progress import until_stopping

GROUP_BYTES: Final = 512 << 20  # of the input, at most, that one task does
_GROUPS: Final = 3  # for each processor of the cluster, at least, where there are units


@dataclass(frozen=True, kw_only=True, slots=True)
class _GroupDone:
    """What came of a group of units."""

    messages: list[Message]
    failed: dict[int, bool]  # by the number of a unit, whether its file could not be read
    wrong: EngineWrongError | None = None


def run_on_cluster(job: UnitRun, pending: Sequence[Unit], choice: EngineChoice) -> dict[int, str]:
    """Do the units on the Ray cluster of the options. Raises EngineWrongError."""
    files = FileTally(pending, job.monitor)
    wrong = None
    with RayWorkers(job.work.ray_address) as cluster:
        work = partial(_tokenize_group, make_assignment(job, choice, 0))
        # An engine is opened for each task.
        share = sum(unit.bytes for unit in pending) / (_GROUPS * cluster.jobs)
        groups = group_neighbours(pending, min(GROUP_BYTES, share))
        begun = until_stopping(groups)
        results = results_in_order(cluster, work, begun, window=2 * cluster.jobs)
        for group, done in zip(groups, results, strict=False):  # fewer where the job is to end
            for message in done.messages:
                job.monitor(message)
            for unit in group:
                files.done(unit, failed=done.failed.get(unit.number, False))
            wrong = wrong or done.wrong
    if wrong is not None:  # when nobody writes any more
        raise wrong
    return {}


def _tokenize_group(assignment: Assignment, units: Sequence[Unit]) -> _GroupDone:
    """Do what is not done yet of some units, in a new lane."""
    job = assignment.job
    there = finished_units(job.base)
    failed = {
        one.number: there[one.number].failed is not None for one in units if one.number in there
    }
    left = [unit for unit in units if unit.number not in there]
    heard = MessageSummary()
    wrong = None
    if left:
        try:
            lane = assignment.in_lane(take_lane(job.base))
            for unit, stretch in run_units(assignment.made_of.recipe(), lane, left, heard.hear):
                failed[unit.number] = stretch.failed is not None
        except EngineWrongError as error:
            wrong = error
    return _GroupDone(messages=heard.messages(), failed=failed, wrong=wrong)
