"""A build done to its end: by one process or several, again where an engine was wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ingot.converters.commit import writing
from ingot.converters.errors import ConversionError
from ingot.converters.megatron.assembling import finished_units
from ingot.converters.megatron.engines.choice import REFERENCES, Choice
from ingot.converters.megatron.engines.engine import EngineWrongError
from ingot.converters.megatron.engines.fast import FAST
from ingot.converters.megatron.engines.verdicts import Case, case_of, failed_on, keep, recall
from ingot.converters.megatron.journal import drop_engine, lanes_of, recover
from ingot.converters.megatron.monitor import log
from ingot.converters.megatron.running import Run, run_here
from ingot.converters.megatron.supervisor import run_processes
from ingot.converters.megatron.units import Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How it went.

    Attributes:
        choice: the engine that it ended with; None = everything was done before.
        failures: by number, the files that no process survived, and why.
    """

    choice: Choice | None = None
    failures: dict[int, str] = field(default_factory=dict)


def run(job: Run) -> Outcome:
    """Do every unit that is not finished.

    Raises:
        ConversionError: see `pipeline.run_units`.
        SourceError: likewise.
        OutputError: the lanes cannot be written.
    """
    with writing(job.place.prefix):
        recover(job.place.base)
    wrong = _distrusted(job)
    for engine in wrong:
        _forget(job, engine, "it gave other ids than the reference elsewhere")
    choice = None
    while pending := job.pending():
        choice = job.choose(pending, wrong)
        _tell_plan(job, pending)
        try:
            if job.work.processes > 1:
                return Outcome(choice=choice, failures=run_processes(job, pending, choice))
            run_here(job, pending, choice)
        except EngineWrongError as error:
            if error.engine not in FAST or error.engine in wrong:
                raise _unexplained(job, error) from error
            wrong |= {error.engine}
            keep(_case(job, error.engine), failed_on(error.text))
            _forget(job, error.engine, str(error))
    return Outcome(choice=choice)


def _unexplained(job: Run, error: EngineWrongError) -> ConversionError:
    """No engine is left that could do it otherwise."""
    return ConversionError(
        job.recipe.loaded.given,
        f"the library contradicts itself about its ids: {error}",
        "report this text and the tokenizer",
    )


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


def _distrusted(job: Run) -> frozenset[str]:
    """Engines of finished units that are known to be wrong: a kill may have come before that."""
    engines = {stretch.engine for stretch in finished_units(job.place.base).values()}
    return frozenset(name for name in engines - {"", *REFERENCES} if not _is_trusted(job, name))


def _is_trusted(job: Run, engine: str) -> bool:
    if engine not in FAST:
        return False
    verdict = recall(_case(job, engine))
    return verdict is None or verdict.passed


def _case(job: Run, engine: str) -> Case:
    return case_of(FAST[engine], job.recipe.loaded, plain=job.recipe.options.plain)


def _forget(job: Run, engine: str, problem: str) -> None:
    """What the engine wrote has to be done again."""
    log(job.monitor, "error", "tokenizer", "engine_wrong", engine=engine, error=problem)
    job.monitor({"kind": "count", "error.engine": 1})
    with writing(job.place.prefix):
        for lane in lanes_of(job.place.base):
            drop_engine(job.place.base, lane, engine)
