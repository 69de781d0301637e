"""What decides the bytes of widened data."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from ingot import __version__
from ingot.converters.commit import Finished, finished
from ingot.converters.criteo.loading.locating import Selection, StoredArray
from ingot.converters.criteo.widening.config import Config
from ingot.converters.rows import Json
from ingot.converters.shard import file_entry

FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Two runs with equal identities and equal arrays make the same folder.

    Attributes:
        selection: the preprocessed rows.
        config: how they are widened.
    """

    selection: Selection
    config: Config

    @property
    def folder(self) -> Path:
        """Where the arrays are."""
        return Path(self.selection.where)

    @cached_property
    def arrays(self) -> tuple[StoredArray, ...]:
        """All that are read or linked."""
        return tuple(array for one in self.selection.stretches for array in one.arrays)

    def settled(self) -> dict[str, Json]:
        """What the manifest holds of it."""
        return {
            "decision": "criteo_multihot",
            "versions": {"ingot": __version__, "criteo_multihot": FORMAT},
            "parameters": self.config.parameters.to_json(),
            "collect_multi_hot_freqs_stats": self.config.collect,
        }

    def stamps(self) -> list[dict[str, Json]]:
        """What tells each array from a changed one without reading it."""
        return [
            {"name": one.path.name, "bytes": one.size, "mtime_ns": one.changed}
            for one in self.arrays
        ]

    def key(self) -> str:
        """The staging key: knows the arrays by place, name, size and time of change."""
        document = [self.settled(), str(self.folder.absolute()), self.stamps()]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def known_files(self) -> list[dict[str, Json]]:
        """Path, bytes and sha256 of those arrays that a manifest beside them knows."""
        there = finished(self.folder)
        names = {one.path.name for one in self.arrays}
        files = there.manifest["files"] if there else []
        return [entry for entry in files if entry["path"] in names]

    @cached_property
    def _inputs(self) -> list[dict[str, Json]]:
        known = {entry["path"]: entry for entry in self.known_files()}
        return [
            known.get(one.path.name) or file_entry(self.folder, Path(one.path.name))
            for one in self.arrays
        ]

    def inputs(self) -> list[dict[str, Json]]:
        """Name, bytes and sha256 of each array; those that no manifest knows are read for it."""
        return [
            {"name": one["path"], "bytes": one["bytes"], "sha256": one["sha256"]}
            for one in self._inputs
        ]

    def difference(self, there: Finished) -> str | None:
        """What tells a finished folder from the one that this run would make, if anything."""
        for name, ours in self.settled().items():
            if there.manifest.get(name) != ours:
                return _DIFFERENCES[name]
        if there.run.get("inputs") == self.stamps():
            return None
        return None if there.manifest.get("inputs") == self.inputs() else "other arrays"


_DIFFERENCES: Final = {
    "decision": "another decision",
    "versions": "another version of ingot",
    "parameters": "other parameters",
    "collect_multi_hot_freqs_stats": "ids counted, or not",
}
