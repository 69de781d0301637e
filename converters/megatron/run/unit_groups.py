"""Do the units of a build in several processes of this machine, or on a Ray cluster.

A task is a group of neighbouring units. It writes into a lane that no other task writes meanwhile;
its process keeps the engine for the next task. When a process dies, what it had finished is in its
lane, and the rest is done again, each unit by itself. The file of a unit that `MOST_DEATHS`
processes died of fails.
"""

import os
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from ingot.converters.errors import ConversionError, IngotError
from ingot.converters.megatron.engines.engine import EngineChoice
from ingot.converters.megatron.messages import Message, MessageSummary, Monitor, log_event
from ingot.converters.megatron.options import WorkOptions
from ingot.converters.megatron.read.input_files import InputFile, Unit
from ingot.converters.megatron.run.pipeline import FileTally, Pipeline
from ingot.converters.megatron.run.recipe import Build, Ingredients
from ingot.converters.megatron.write.lanes import recover_lanes, take_lane
from ingot.converters.megatron.write.staging import Staging, finished_units
from ingot.converters.output.files import output_errors
from ingot.converters.output.worker_pool import Spreading, WorkerDiedError, Workers, tell
from ingot.converters.progress import core_numbers, is_stopping

MOST_DEATHS: Final = 3
# Of the input, at most, in a group: a job that is to end finishes those that are begun.
_LOCAL_BYTES: Final = 128 << 20
_CLUSTER_BYTES: Final = 512 << 20
_SHARES: Final = 3  # for each process, of what is left, if there are units


@dataclass(frozen=True, kw_only=True, slots=True)
class _Opening:
    """What a process opens once and keeps from task to task."""

    place: Staging  # every task says in which lane
    made_of: Ingredients
    work: WorkOptions
    choice: EngineChoice


# What came of a group: by unit, whether its file could not be read; and what is to be told.
_GroupDone: TypeAlias = tuple[dict[int, bool], list[Message]]


def run_groups(
    build: Build, staging: Staging, pending: Sequence[Unit], choice: EngineChoice
) -> dict[int, str]:
    """Do the units; return by number the files that processes died of, and why.

    Raises what ended a task, when nobody writes any more.
    """
    groups = _Groups(build, staging, pending)
    if build.work.runner == "ray":
        from ingot.converters.output.ray_workers import RayWorkers

        with RayWorkers(build.work.ray_address) as cluster:
            groups.run(cluster, choice, [None] * 2 * cluster.jobs, _CLUSTER_BYTES)
        with output_errors(staging.prefix):  # of nodes that died with it
            recover_lanes(staging.base, retry_failed=False)
    else:
        lanes = staging.take_lanes(build.work.processes)[: len(pending)]
        with Workers(len(lanes), hear=groups.hear, pass_fds=[staging.lock]) as processes:
            groups.run(processes, choice, lanes, _LOCAL_BYTES)
    return groups.failures


class _Groups:
    def __init__(self, build: Build, staging: Staging, pending: Sequence[Unit]) -> None:
        self.failures: dict[int, str] = {}
        self._build, self._place, self._left = build, staging, deque(pending)
        self._bytes = sum(unit.bytes for unit in pending)  # of what is left
        self._files = FileTally(pending, build.monitor)
        self._deaths: Counter[int] = Counter()  # by unit
        self._begun: set[object] = set()  # lanes of tasks that have begun
        self._stillborn = 0  # processes in a row that ended before they began

    def hear(self, message: Message) -> None:
        """Take a message of a process of this machine."""
        if message["kind"] == "begin":
            self._begun.add(message["worker"])
        else:
            self._build.monitor(message)

    def run(
        self, runner: Spreading, choice: EngineChoice, lanes: Sequence[int | None], max_bytes: int
    ) -> None:
        """Do groups of at most so many bytes, one in each lane at a time.

        A lane that is None is one that the task takes.
        """
        build, pending, free = self._build, self._left, deque(lanes)
        prefix, base = self._place.prefix.absolute(), self._place.base.absolute()
        opening = _Opening(
            place=replace(self._place, prefix=prefix, base=base, lanes=[]),
            made_of=build.recipe.ingredients(),
            work=build.work,
            choice=choice,
        )
        busy: dict[Future[_GroupDone], tuple[list[Unit], int | None]] = {}
        error: IngotError | None = None
        while busy or (pending and not (error or is_stopping())):
            while free and pending and not (error or is_stopping()):
                group, lane = self._take_group(runner.jobs, max_bytes), free.popleft()
                self._begun.discard(lane)
                files = {unit.file: build.files[unit.file] for unit in group}
                busy[runner.submit(_do_group, opening, files, group, lane)] = group, lane
            future = wait(busy, return_when=FIRST_COMPLETED).done.pop()
            group, lane = busy.pop(future)
            free.append(lane)
            try:
                failed, messages = future.result()
            except WorkerDiedError as death:
                unfinished = self._handle_death(group, lane, death.cause or death.end_text)
                pending.extendleft(reversed(unfinished))
                self._bytes += sum(unit.bytes for unit in unfinished)
            except IngotError as raised:
                error = error or raised
            else:
                for message in messages:
                    build.monitor(message)
                self._count(group, failed)
        if error is not None:
            raise error

    def _take_group(self, jobs: int, max_bytes: int) -> list[Unit]:
        """Take neighbours from what is left: fewer towards the end, so that all end together.

        A unit that a process died of is taken alone.
        """
        remaining = min(max_bytes, self._bytes / (_SHARES * jobs))
        group: list[Unit] = []
        while self._left and (not group or self._left[0].bytes <= remaining):
            if group and self._deaths.keys() & {group[-1].number, self._left[0].number}:
                break
            group.append(self._left.popleft())
            remaining -= group[-1].bytes
        self._bytes -= sum(unit.bytes for unit in group)
        return group

    def _count(self, group: Sequence[Unit], failed: Mapping[int, bool]) -> list[Unit]:
        """Count the units that are done, and return the others."""
        for unit in group:
            if unit.number in failed:
                self._files.done(unit, failed=failed[unit.number])
        return [unit for unit in group if unit.number not in failed]

    def _handle_death(self, group: Sequence[Unit], lane: int | None, cause: str) -> list[Unit]:
        """Count what is done and who is to blame; returns the units to be done again."""
        finished = finished_units(self._place.base)
        rest = self._count(
            group, {number: one.failed is not None for number, one in finished.items()}
        )
        monitor = self._build.monitor
        log_event(monitor, "error", "pipeline", "worker_died", worker=lane, error=cause)
        monitor({"kind": "count", "worker_errors": 1})
        if lane is not None and lane not in self._begun:
            self._stillborn += 1
            if self._stillborn >= MOST_DEATHS * self._build.work.processes:
                problem = f"processes end before they begin ({cause})"
                hint = "read what they wrote to standard error, or build with `processes` 1"
                raise ConversionError(str(self._place.prefix), problem, hint)
        else:
            self._stillborn = 0
            self._deaths.update(unit.number for unit in rest)
        guilty = {unit.number: True for unit in rest if self._deaths[unit.number] >= MOST_DEATHS}
        reason = f"{MOST_DEATHS} worker processes crashed on this file ({cause})"
        self.failures |= {unit.file: reason for unit in rest if unit.number in guilty}
        return self._count(rest, guilty)


# In the processes


_kept: list[tuple[_Opening, Pipeline]] = []  # one at most
_monitor: list[Monitor] = []  # of the task that is being done


def _open_pipeline(opening: _Opening) -> Pipeline:
    """The pipeline of the last task, if it serves."""
    if _kept and _kept[0][0] != opening:
        _close_pipeline()
    if not _kept:
        recipe, hear = opening.made_of.recipe(), lambda one: _monitor[0](one)
        _kept.append((opening, Pipeline(recipe, opening.work, opening.choice, hear)))
    return _kept[0][1]


def _close_pipeline() -> None:
    while _kept:
        _kept.pop()[1].close()


def _tell_parent(lane: int, message: Message) -> None:
    tell({**message, "worker": lane})


def _do_group(
    opening: _Opening, files: Mapping[int, InputFile], units: Sequence[Unit], lane: int | None
) -> _GroupDone:
    """Do what is not done yet of some units."""
    summary, failed = MessageSummary(), dict[int, bool]()
    if lane is None:  # it may have been begun on a node that died
        finished = finished_units(opening.place.base)
        own_units = (finished[unit.number] for unit in units if unit.number in finished)
        failed = {one.unit: one.failed is not None for one in own_units}
        units = [unit for unit in units if unit.number not in failed]
        _monitor[:] = [summary.hear]
        lane = take_lane(opening.place.base)
    else:
        _monitor[:] = [partial(_tell_parent, lane)]
    if opening.work.affinity:
        _take_cores(lane, opening.work.processes)
    try:
        for unit, stretch in _open_pipeline(opening).run(
            opening.place, lane, files, units, on_begin=lambda: _monitor[0]({"kind": "begin"})
        ):
            failed[unit.number] = stretch.failed is not None
    except BaseException:
        _close_pipeline()
        raise
    return failed, summary.messages()


def _take_cores(lane: int, processes: int) -> None:
    """Bind this process to the share of a lane."""
    cores = core_numbers()
    os.sched_setaffinity(0, cores[lane % len(cores) :: processes] or cores)
