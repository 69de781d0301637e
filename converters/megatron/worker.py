"""One process of a build with several: does the units that it is given, in a lane of its own.

It is started by the supervisor and reads lines of JSON from standard input: its assignment, then
the numbers of units. It says `{"done": UNIT}`, `{"said": MESSAGE}` and `{"error": ...}` on standard
output, and ends when its input ends or its supervisor is gone.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import orjson

from ingot.converters.commit import writing
from ingot.converters.errors import ConversionError, IngotError, OutputError, SourceError
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.engine import EngineWrongError
from ingot.converters.megatron.lanes import Lane
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.pipeline import run_units
from ingot.converters.megatron.reading import Layout
from ingot.converters.megatron.recipe import Recipe, make_recipe
from ingot.converters.megatron.tokenizer import load_tokenizer
from ingot.converters.megatron.units import InputFile, Unit, plan
from ingot.converters.megatron.writing import UnitWriter
from ingot.converters.rows import Json

ERRORS: Final[dict[str, type[IngotError]]] = {
    kind.__name__: kind for kind in (ConversionError, SourceError, OutputError, EngineWrongError)
}
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """What a process has to know.

    Attributes:
        lane: its lane.
        processes: how many there are.
        base: where the lanes lie.
        files: all files, by number.
        tokenizer: the tokenizer's file.
        options: what decides the bytes.
        layout: what is read.
        work: how the work is done.
        choice: the engine.
    """

    lane: int
    processes: int
    base: Path
    files: tuple[InputFile, ...]
    tokenizer: Path
    options: BuildOptions
    layout: Layout
    work: WorkOptions
    choice: Choice

    def to_document(self) -> dict[str, Json]:
        """As JSON."""
        return {
            "lane": self.lane,
            "processes": self.processes,
            "base": _text(self.base),
            "files": [file.to_document() for file in self.files],
            "tokenizer": _text(self.tokenizer),
            "options": self.options.to_document(),
            "layout": self.layout.to_document(),
            "work": self.work.to_document(),
            "choice": self.choice.to_document(),
        }

    @staticmethod
    def from_document(document: dict[str, Json]) -> "Assignment":
        """The assignment of such a document."""
        return Assignment(
            lane=document["lane"],
            processes=document["processes"],
            base=_path(document["base"]),
            files=tuple(InputFile.from_document(one) for one in document["files"]),
            tokenizer=_path(document["tokenizer"]),
            options=BuildOptions.from_document(document["options"]),
            layout=Layout.from_document(document["layout"]),
            work=WorkOptions(**document["work"]),
            choice=Choice.from_document(document["choice"]),
        )

    def recipe(self) -> Recipe:
        """What makes documents."""
        return make_recipe(load_tokenizer(self.tokenizer), self.options, self.layout)


def _text(path: Path) -> str:
    return os.fsencode(path.absolute()).decode("latin-1")


def _path(text: str) -> Path:
    return Path(os.fsdecode(text.encode("latin-1")))


class _Voice:
    """Says lines of JSON, from any thread."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._lock = threading.Lock()

    def say(self, document: dict[str, Json]) -> None:
        line = orjson.dumps(document, default=str, option=orjson.OPT_SERIALIZE_NUMPY)
        with self._lock:
            self._out.write(line + b"\n")
            self._out.flush()

    def monitor(self, message: dict[str, Json]) -> None:
        self.say({"said": message})


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The supervisor's lines; whatever a library prints goes to standard error from now on."""
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, said


def _end_with(parent: int) -> None:
    """End when the supervisor is gone, so that its successor finds nobody writing."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _units(heard: IO[bytes], units: list[Unit]) -> Iterator[Unit]:
    for line in heard:
        yield units[orjson.loads(line)["unit"]]


def _work(assignment: Assignment, heard: IO[bytes], voice: _Voice) -> None:
    options, work = assignment.options, assignment.work
    recipe = assignment.recipe()
    units = plan(list(assignment.files), whole_files=options.doc_boundary == "file")
    stages = recipe.stages(assignment.files, work, assignment.choice, voice.monitor)
    with writing(assignment.base), Lane(base=assignment.base, number=assignment.lane) as lane:
        writer = UnitWriter(lane, recipe.rules, pack=options.pack, fail_fast=work.fail_fast)
        given = _units(heard, units)
        for unit, stretch in run_units(stages, given, writer, fail_fast=work.fail_fast):
            voice.say({"done": unit.number, "failed": stretch.failed is not None})


def _bind(assignment: Assignment) -> None:
    """Keep to a share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    own = cores[assignment.lane % len(cores) :: assignment.processes]
    os.sched_setaffinity(0, own or cores)


def main() -> int:
    """Work until the supervisor has nothing more to do; gives the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor hears it too, and ends us
    _end_with(os.getppid())
    heard, out = _own_streams()
    voice = _Voice(out)
    assignment = Assignment.from_document(orjson.loads(heard.readline()))
    if assignment.work.affinity:
        _bind(assignment)
    try:
        _work(assignment, heard, voice)
    except tuple(ERRORS.values()) as error:
        voice.say({"error": {"kind": type(error).__name__, "fields": list(error.args)}})
        os._exit(1)  # the reader's thread may wait for units that do not come any more
    return 0


if __name__ == "__main__":
    sys.exit(main())
