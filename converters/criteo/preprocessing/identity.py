"""What decides the bytes of a run."""

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from ingot import __version__
from ingot.converters.commit import Finished
from ingot.converters.criteo.preprocessing.inputs import Inputs
from ingot.converters.criteo.preprocessing.settings import Settings
from ingot.converters.criteo.preprocessing.vocabulary import digest
from ingot.converters.errors import IngotError
from ingot.converters.rows import Json

FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Two runs with equal identities and equal input files make the same folder."""

    inputs: Inputs
    settings: Settings
    vocab_sha256: str | None

    @classmethod
    def of(cls, inputs: Inputs, settings: Settings) -> "Identity":
        """The identity of a run.

        Raises:
            SourceError: the vocabularies cannot be read.
        """
        known = digest(settings.vocab) if settings.vocab is not None else None
        return cls(inputs=inputs, settings=settings, vocab_sha256=known)

    def settled(self) -> dict[str, Json]:
        """What the manifest holds of it."""
        settings = self.settings
        return {
            "decision": "criteo",
            "versions": {"ingot": __version__, "criteo": FORMAT},
            "dense": settings.dense,
            "frequency_threshold": settings.threshold,
            "shuffle_seed": settings.shuffle_seed if self.inputs.shuffled else None,
            "compat": settings.compat,
            "vocab_sha256": self.vocab_sha256,
            "unseen": settings.unseen,
        }

    def key(self) -> str:
        """The staging key. Input files are known by the parts that were read of them."""
        parts = [part.name for part in self.inputs.parts]
        how = [self.settings.encode, self.settings.strict]
        document = [self.settled(), self.inputs.place, parts, how]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def difference(self, there: Finished) -> str | None:
        """What tells a finished folder from the one that this run would make, if anything."""
        for name, ours in self.settled().items():
            theirs = there.manifest.get(name)
            if theirs != ours:
                return _DIFFERENCES[name].format(ours=ours, theirs=theirs)
        if self.settings.strict and there.manifest.get("rejects"):
            return "it was made without --strict, and lines were rejected"
        if there.run.get("inputs") == self.inputs.stamps():
            return None
        try:
            same = there.manifest.get("inputs") == self.inputs.sha256s()
        except IngotError:
            same = False  # the run will say what is wrong with the file
        return None if same else "other input files"


_DIFFERENCES: Final = {
    "decision": "another decision",
    "versions": "another version of ingot",
    "dense": "dense {theirs}, now {ours}",
    "frequency_threshold": "frequency threshold {theirs}, now {ours}",
    "shuffle_seed": "shuffle seed {theirs}, now {ours}",
    "compat": "compat {theirs}, now {ours}",
    "vocab_sha256": "other vocabularies to begin with",
    "unseen": "unseen values {theirs}, now {ours}",
}
