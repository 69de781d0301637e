"""The units of a build, done in this process or in several; again where an engine was wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingot.converters.commit import writing
from ingot.converters.megatron.assembling import finished_units
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.engine import EngineWrongError
from ingot.converters.megatron.lanes import Lane, drop_engine, lanes_of
from ingot.converters.megatron.monitor import Monitor, log
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


def run(job: Run) -> dict[int, str]:
    """Do what is not finished yet; gives the files that no process survived, and why.

    Raises:
        ConversionError: see `pipeline.run_units`.
        SourceError: likewise.
        OutputError: the lanes cannot be written.
    """
    from ingot.converters.megatron.supervisor import run_processes

    wrong: frozenset[str] = frozenset()
    while pending := job.pending():
        _tell_plan(job, pending)
        choice = job.choose(pending, wrong)
        try:
            if job.work.processes > 1:
                return run_processes(job, pending, choice)
            _run_here(job, pending, choice)
        except EngineWrongError as error:
            wrong |= {error.engine}
            _forget(job, error)
    return {}


def _tell_plan(job: Run, pending: Sequence[Unit]) -> None:
    job.monitor(
        {
            "kind": "plan",
            "bytes": sum(unit.bytes for unit in pending),
            "files": len({unit.file for unit in pending}),
            "units": len(pending),
        }
    )
    job.monitor({"kind": "phase", "phase": "read"})


def _run_here(job: Run, pending: Sequence[Unit], choice: Choice) -> None:
    stages = job.recipe.stages(job.files, job.work, choice, job.monitor)
    with writing(job.place.prefix), Lane(base=job.place.base) as lane:
        writer = UnitWriter(
            lane, job.recipe.rules, pack=job.recipe.options.pack, fail_fast=job.work.fail_fast
        )
        for _ in run_units(stages, pending, writer, fail_fast=job.work.fail_fast):
            pass


def _forget(job: Run, error: EngineWrongError) -> None:
    """What the engine wrote has to be done again."""
    log(
        job.monitor,
        "error",
        "tokenizer",
        "engine_wrong",
        engine=error.engine,
        error=str(error),
    )
    job.monitor({"kind": "count", "error.engine": 1})
    with writing(job.place.prefix):
        for lane in lanes_of(job.place.base):
            drop_engine(job.place.base, lane, error.engine)
