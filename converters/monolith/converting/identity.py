"""What decides the bytes of a folder of converted streams."""

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from ingot import __version__
from ingot.converters.commit import Finished
from ingot.converters.errors import IngotError
from ingot.converters.monolith.converting.settings import Settings
from ingot.converters.monolith.streams import Inputs
from ingot.converters.rows import Json

FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Two conversions with equal identities make the same folder."""

    inputs: Inputs
    settings: Settings

    def settled(self) -> dict[str, Json]:
        """What the manifest holds of it."""
        return {
            "decision": "monolith",
            "versions": {"ingot": __version__, "monolith": FORMAT},
            "options": self.settings.document(),
        }

    def stamps(self) -> list[dict[str, Json]]:
        """Name, size and time of change of every input."""
        return [file.stamp() for file in self.inputs.files]

    def key(self) -> str:
        """The staging key."""
        document = [self.settled(), self.inputs.place, self.stamps()]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def difference(self, there: Finished) -> str | None:
        """What tells a finished folder from the one that this run would make, if anything."""
        for name, ours in self.settled().items():
            if there.manifest.get(name) != ours:
                return _DIFFERENCES[name]
        if there.run.get("inputs") == self.stamps():
            return None
        try:
            same = there.manifest.get("inputs") == [file.entry() for file in self.inputs.files]
        except IngotError:
            same = False  # the run will say what is wrong with the file
        return None if same else "other input files"


_DIFFERENCES: Final = {
    "decision": "another decision",
    "versions": "another version of ingot",
    "options": "other options",
}
