"""The units of a build that are to be done, and the way to do them in this process."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingot.converters.commit import writing
from ingot.converters.megatron.assembling import finished_units
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.lanes import Lane
from ingot.converters.megatron.monitor import Monitor
from ingot.converters.megatron.options import WorkOptions
from ingot.converters.megatron.pipeline import run_units
from ingot.converters.megatron.recipe import Recipe
from ingot.converters.megatron.staging import Staging
from ingot.converters.megatron.units import InputFile, Unit
from ingot.converters.megatron.writing import UnitWriter

# The engine for the units that are to be done, without those that were wrong before.
Chooser = Callable[[Sequence[Unit], frozenset[str]], Choice]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Units that are to be done.

    Attributes:
        files: all files, by number.
        units: the whole plan; those that are finished in a lane are left out.
        recipe: what makes documents.
        work: how the work is done.
        place: where the lanes lie.
        choose: picks the engine.
        monitor: hears how it goes.
    """

    files: Sequence[InputFile]
    units: Sequence[Unit]
    recipe: Recipe
    work: WorkOptions
    place: Staging
    choose: Chooser
    monitor: Monitor

    def pending(self) -> list[Unit]:
        """The units that are not finished."""
        finished = finished_units(self.place.base)
        return [unit for unit in self.units if unit.number not in finished]


class FileMeter:
    """Tells of every file that is through."""

    def __init__(self, pending: Sequence[Unit], monitor: Monitor) -> None:
        self._left = Counter(unit.file for unit in pending)
        self._failed: set[int] = set()
        self._monitor = monitor

    def done(self, unit: Unit, *, failed: bool) -> None:
        """A unit of a file is done, or cannot be."""
        self._left[unit.file] -= 1
        if failed and unit.file not in self._failed:
            self._failed.add(unit.file)
            self._monitor({"kind": "count", "failed_files": 1})
        elif not self._left[unit.file] and unit.file not in self._failed:
            self._monitor({"kind": "count", "files": 1})


def run_here(job: Run, pending: Sequence[Unit], choice: Choice) -> None:
    """Do the units in this process, in the first lane."""
    stages = job.recipe.stages(job.files, job.work, choice, job.monitor)
    with writing(job.place.prefix), Lane(base=job.place.base) as lane:
        writer = UnitWriter(
            lane, job.recipe.rules, pack=job.recipe.options.pack, fail_fast=job.work.fail_fast
        )
        files = FileMeter(pending, job.monitor)
        for unit, stretch in run_units(stages, pending, writer, fail_fast=job.work.fail_fast):
            files.done(unit, failed=stretch.failed is not None)
