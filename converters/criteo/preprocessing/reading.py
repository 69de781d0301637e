"""Every part into the work folder, every column with its ids and its vocabulary.

encode="stream": ids are given while parts are read, all maps are in memory. encode="columns": parts
are read with raw columns, then one map at a time goes over all parts. Both see a column's values in
the same order, so that they give the same ids.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ingot.converters.criteo.contract import KEYS
from ingot.converters.criteo.preprocessing.columns import Column
from ingot.converters.criteo.preprocessing.finishing import finish
from ingot.converters.criteo.preprocessing.inputs import Inputs, Part
from ingot.converters.criteo.preprocessing.part_files import append
from ingot.converters.criteo.preprocessing.part_reader import PartReader
from ingot.converters.criteo.preprocessing.settings import Settings
from ingot.converters.criteo.preprocessing.work import Work, mapped, remove
from ingot.converters.rows import Json

_ROWS: Final = 1 << 20

Tell = Callable[[str, int, int], None]
"""Called with a stage, the parts or columns of it that are done, and rows since the last call."""


class Reading:
    """The first two steps of a run: parts are read, columns are finished.

    Args:
        inputs, settings: what is read, and how.
        work: where parts go.
        result: where vocabularies go.
        tell: hears how far it is.
    """

    def __init__(
        self, inputs: Inputs, settings: Settings, work: Work, result: Path, tell: Tell
    ) -> None:
        self._inputs, self._settings = inputs, settings
        self._work, self._result, self._tell = work, result, tell
        self._finished = 0

    def taken_up(self) -> int:
        """Parts that a broken-off run read, of files that are what they were."""
        for number, (part, stamp) in enumerate(self._stamped()):
            facts = self._work.facts(_read(part))
            if facts is None or facts["stamp"] != stamp:
                return number
        return len(self._inputs.parts)

    def begun(self) -> bool:
        """Whether a broken-off run went on after reading."""
        return any(self._work.facts(_finished(key)) is not None for key in KEYS)

    def facts(self) -> list[dict[str, Json]]:
        """What was counted of each part."""
        return [cast(dict[str, Json], self._work.facts(_read(p))) for p in self._inputs.parts]

    def columns(self) -> list[dict[str, Json]]:
        """What was counted of each column."""
        return [cast(dict[str, Json], self._work.facts(_finished(key))) for key in KEYS]

    def run(self) -> None:
        """Do what is left of both steps."""
        # Parts behind one that is read anew were numbered by maps that are no more.
        self._work.undo(_read(part) for part in self._inputs.parts[self.taken_up() :])
        if self._settings.encode == "stream":
            self._stream()
        else:
            self._read("raw", lambda at, values: values, lambda: None)
            self._one_by_one()

    def _stamped(self) -> Iterator[tuple[Part, dict[str, Json]]]:
        return zip(self._inputs.parts, self._inputs.stamps(), strict=True)

    def _stream(self) -> None:
        left = [at for at, key in enumerate(KEYS) if self._work.facts(_finished(key)) is None]
        if not left:
            return
        done = [part.name for part in self._inputs.parts[: self.taken_up()]]
        logged = self.facts()[len(done) - 1]["logged"] if done else [0] * len(KEYS)
        columns = {at: Column(self._work, at, self._settings) for at in left}
        try:
            for at, column in columns.items():
                column.open_log(logged[at])
                for name in done:
                    column.recount(name)
            self._read(
                "ids",
                lambda at, values: columns[at].encode(values),
                lambda: [column.logged() for column in columns.values()],
            )
        finally:
            for column in columns.values():
                column.close()
        for at in left:
            self._finish(columns.pop(at))

    def _read(
        self,
        kind: str,
        encode: Callable[[int, NDArray[np.uint32]], NDArray[Any]],
        logged: Callable[[], list[int] | None],
    ) -> None:
        """Read the parts that are left."""
        taken_up = self.taken_up()
        for number, (part, stamp) in enumerate(self._stamped()):
            if number < taken_up:
                continue
            tell = partial(self._tell, "read", number)
            reader = PartReader(self._work, self._settings, kind, encode, tell)
            facts = reader.read(part)
            self._work.sync(self._work.part(part.name))
            self._work.done(_read(part), {**facts, "stamp": stamp, "logged": logged()})
            self._tell("read", number + 1, 0)

    def _one_by_one(self) -> None:
        for at, key in enumerate(KEYS):
            if self._work.facts(_finished(key)) is None:
                column = Column(self._work, at, self._settings)
                column.open_log(0)
                try:
                    for part in self._inputs.parts:
                        self._encode(column, part, at)
                    column.logged()
                finally:
                    column.close()
                self._finish(column)
            remove(self._work.column(part.name, key, "raw") for part in self._inputs.parts)
            self._tell("columns", at + 1, 0)

    def _encode(self, column: Column, part: Part, at: int) -> None:
        raw = mapped(self._work.column(part.name, column.key, "raw"), np.uint32)
        path = self._work.column(part.name, column.key, "ids")
        with path.open("wb", buffering=0) as file:
            for start in range(0, len(raw), _ROWS):
                values = cast(NDArray[np.uint32], raw[start : start + _ROWS])
                append(cast(Any, file), column.encode(values))
                self._tell("columns", at, len(values))
        self._work.sync(path)

    def _finish(self, column: Column) -> None:
        facts = finish(column, self._work, self._settings, self._result)
        self._work.done(_finished(column.key), facts)
        self._finished += 1
        self._tell("vocabularies", self._finished, 0)


def _read(part: Part) -> str:
    return f"read-{part.name}"


def _finished(key: str) -> str:
    return f"column-{key}"
