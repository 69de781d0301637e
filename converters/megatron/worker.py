"""One process of a build with several: does the units that it is given, in a lane of its own.

It is started by the supervisor and reads lines of JSON from standard input: its assignment, the
units, at last `{"end": true}`. On standard output it says `{"ready": true}` when it is going to
begin, `{"done": UNIT, "failed": BOOL}`, `{"said": MESSAGE}` and `{"error": ...}`. When its input
ends without that last line, its supervisor is gone, and it ends on the spot.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

from ingot.converters.commit import writing
from ingot.converters.errors import ConversionError, IngotError, OutputError, SourceError
from ingot.converters.megatron.engines.choice import Choice
from ingot.converters.megatron.engines.engine import EngineWrongError
from ingot.converters.megatron.filenames import name_of, text_of
from ingot.converters.megatron.lanes import Lane
from ingot.converters.megatron.layouts import Layout
from ingot.converters.megatron.options import BuildOptions, WorkOptions
from ingot.converters.megatron.pipeline import run_units
from ingot.converters.megatron.recipe import Recipe, make_recipe
from ingot.converters.megatron.tokenizer import load_tokenizer
from ingot.converters.megatron.units import InputFile, Unit
from ingot.converters.megatron.writing import UnitWriter
from ingot.converters.rows import Json

ERRORS: Final[dict[str, type[IngotError]]] = {
    kind.__name__: kind for kind in (ConversionError, SourceError, OutputError, EngineWrongError)
}
_ORPHANED: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """What a process has to know.

    Attributes:
        lane: its lane.
        processes: how many there are.
        prefix: of the data set.
        base: where the lanes lie.
        files: all files, by number.
        tokenizer: the tokenizer's file.
        made_of: what the recipe has to be made of, see `ingredients`.
        options: what decides the bytes.
        layout: what is read.
        work: how the work is done.
        choice: the engine.
    """

    lane: int
    processes: int
    prefix: Path
    base: Path
    files: tuple[InputFile, ...]
    tokenizer: Path
    made_of: list[str]
    options: BuildOptions
    layout: Layout
    work: WorkOptions
    choice: Choice

    def to_document(self) -> dict[str, Json]:
        """As JSON."""
        return {
            "lane": self.lane,
            "processes": self.processes,
            "prefix": text_of(self.prefix.absolute()),
            "base": text_of(self.base.absolute()),
            "files": [file.to_document() for file in self.files],
            "tokenizer": text_of(self.tokenizer.absolute()),
            "made_of": self.made_of,
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
            prefix=Path(name_of(document["prefix"])),
            base=Path(name_of(document["base"])),
            files=tuple(InputFile.from_document(one) for one in document["files"]),
            tokenizer=Path(name_of(document["tokenizer"])),
            made_of=document["made_of"],
            options=BuildOptions.from_document(document["options"]),
            layout=Layout.from_document(document["layout"]),
            work=WorkOptions(**document["work"]),
            choice=Choice.from_document(document["choice"]),
        )

    def recipe(self) -> Recipe:
        """What makes documents.

        Raises:
            ConversionError: the tokenizer or the template has changed since the build began.
        """
        recipe = make_recipe(load_tokenizer(self.tokenizer), self.options, self.layout)
        if ingredients(recipe) != self.made_of:
            raise ConversionError(
                str(self.tokenizer),
                "it or the chat template changed while the build ran",
                "put back what was there, and go on with --resume",
            )
        return recipe


def ingredients(recipe: Recipe) -> list[str]:
    """What files beside the inputs a recipe is made of: sha256 of tokenizer and template."""
    template = recipe.template
    return [recipe.loaded.sha256, "" if template is None else template.sha256]


def unit_document(unit: Unit) -> dict[str, Json]:
    """A unit as JSON."""
    return asdict(unit)


def _unit(document: dict[str, Json]) -> Unit:
    groups = document["row_groups"]
    return Unit(**{**document, "row_groups": None if groups is None else tuple(groups)})


class _Voice:
    """Says lines of JSON, from any thread."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._lock = threading.Lock()

    def say(self, document: dict[str, Json]) -> None:
        line = json.dumps(document, default=_plain).encode() + b"\n"
        try:
            with self._lock:
                self._out.write(line)
                self._out.flush()
        except BrokenPipeError:
            os._exit(_ORPHANED)

    def monitor(self, message: dict[str, Json]) -> None:
        self.say({"said": message})


def _plain(value: Json) -> Json:
    """A number of numpy as one of Python; a path and the like as text."""
    return value.item() if hasattr(value, "item") else str(value)


class _Given:
    """The units as they come, heard by a thread of its own so that the end is heard at once."""

    def __init__(self, heard: IO[bytes]) -> None:
        self._heard = heard
        self._units: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def _listen(self) -> None:
        for line in self._heard:
            document = json.loads(line)
            if "end" in document:
                self.close()
                return
            self._units.put(_unit(document["unit"]))
        os._exit(_ORPHANED)  # so that a successor finds nobody writing

    def close(self) -> None:
        """There are no more."""
        self._units.put(None)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units.get, None)


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The supervisor's lines; whatever a library prints goes to standard error from now on."""
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, said


def _work(assignment: Assignment, given: _Given, voice: _Voice) -> None:
    options, work = assignment.options, assignment.work
    recipe = assignment.recipe()
    stages = recipe.stages(assignment.files, work, assignment.choice, voice.monitor)
    with writing(assignment.prefix), Lane(base=assignment.base, number=assignment.lane) as lane:
        writer = UnitWriter(lane, recipe.rules, pack=options.pack, fail_fast=work.fail_fast)
        voice.say({"ready": True})
        done = run_units(stages, given, writer, fail_fast=work.fail_fast, no_more=given.close)
        for unit, stretch in done:
            voice.say({"done": unit.number, "failed": stretch.failed is not None})


def _bind(assignment: Assignment) -> None:
    """Keep to a share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    own = cores[assignment.lane % len(cores) :: assignment.processes]
    os.sched_setaffinity(0, own or cores)


def _told(work: Callable[[], None], voice: _Voice) -> int:
    """Work; gives the exit status."""
    try:
        work()
    except tuple(ERRORS.values()) as error:
        kind = next(name for name, one in ERRORS.items() if isinstance(error, one))
        voice.say({"error": {"kind": kind, "fields": list(error.args)}})
        return 1
    return 0


def main() -> int:
    """Work until the supervisor has nothing more to do; gives the exit status."""
    heard, out = _own_streams()
    voice = _Voice(out)
    line = heard.readline()
    if not line.endswith(b"\n"):
        return _ORPHANED
    assignment = Assignment.from_document(json.loads(line))
    given = _Given(heard)
    if assignment.work.affinity:
        _bind(assignment)
    return _told(lambda: _work(assignment, given, voice), voice)
