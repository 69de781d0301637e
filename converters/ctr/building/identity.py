"""What decides the bytes of a build."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa

from ingot import __version__
from ingot.converters.commit import Finished
from ingot.converters.ctr.building.inputs import Inputs, sha256s, stamps
from ingot.converters.ctr.contract import Profile
from ingot.converters.ctr.featuremap import FeatureMap, load, to_document
from ingot.converters.errors import IngotError
from ingot.converters.rows import Json

FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Two builds with equal identities make the same folder.

    Attributes:
        inputs: the raw files.
        stamps: role, name, size and time of change of each of them.
        featuremap: what becomes of them.
        vocab_sha256: of the saved vocabularies that are used, or None.
    """

    inputs: Inputs
    stamps: list[dict[str, Json]]
    featuremap: FeatureMap
    vocab_sha256: str | None

    @classmethod
    def of(
        cls, inputs: Inputs, featuremap: FeatureMap, known: dict[str, pa.Table] | None
    ) -> "Identity":
        """The identity of a build."""
        return cls(
            inputs=inputs,
            stamps=stamps(inputs),
            featuremap=featuremap,
            vocab_sha256=_digest(known) if known is not None else None,
        )

    def settled(self) -> dict[str, Json]:
        """What the manifest holds of it."""
        return {
            "decision": "ctr",
            "versions": {"ingot": __version__, "ctr": FORMAT},
            "profile": asdict(Profile.of(self.featuremap)),
            "featuremap_sha256": self.featuremap.sha256,
            "vocab_sha256": self.vocab_sha256,
        }

    def key(self) -> str:
        """The staging key: knows the inputs by place, name, size and time of change."""
        document = [self.settled(), self.inputs.places(), self.stamps]
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def difference(self, there: Finished) -> str | None:
        """What tells a finished folder from the one that this build would make, if anything."""
        for name, ours in self.settled().items():
            if there.manifest.get(name) != ours:
                return _DIFFERENCES[name] + self._changed(name, there)
        if there.run.get("inputs") == self.stamps:
            return None
        try:
            same = there.manifest.get("inputs") == sha256s(self.inputs)
        except IngotError:
            same = False  # the build will say what is wrong with the file
        return None if same else "other input files"

    def _changed(self, name: str, there: Finished) -> str:
        """What of the profile or the featuremap differs, as far as the folder shows it."""
        if name not in ("profile", "featuremap_sha256"):
            return ""
        try:
            theirs = to_document(load(there.folder / "featuremap.yaml"))
        except IngotError:
            return ""
        ours = to_document(self.featuremap)
        keys = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
        told = [
            key if key in ("features", "table") else f"{key} {ours[key]}, there {theirs[key]}"
            for key in keys
        ]
        return f" ({'; '.join(told)})" if told else ""


_DIFFERENCES = {
    "decision": "another decision",
    "versions": "another version of ingot",
    "profile": "another reading of the contract",
    "featuremap_sha256": "another featuremap",
    "vocab_sha256": "other vocabularies",
}


def _digest(tables: dict[str, pa.Table]) -> str:
    digest = hashlib.sha256()
    for name, table in sorted(tables.items()):
        digest.update(name.encode() + b"\0")
        for batch in table.combine_chunks().to_batches():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            digest.update(sink.getvalue())
    return digest.hexdigest()
