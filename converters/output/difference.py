"""Define what decides the bytes of a result, and tell how a finished result differs from it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ingot.converters.errors import IngotError
from ingot.converters.json_yaml import json_digest, shorten_text
from ingot.converters.output.files import InputEntry, InputStamp
from ingot.converters.rows import Json

_SHOWN: Final = 5
_WORDS: Final = {
    "decision": "another decision",
    "mapping_sha256": "another mapping",
}


@dataclass(frozen=True, kw_only=True)
class FinishedResult:
    """A committed result: its folder, its manifest and its run.json (empty where that is gone)."""

    folder: Path
    manifest: dict[str, Json]
    run: dict[str, Json]


@dataclass(frozen=True, kw_only=True)
class ResultIdentity:
    """What decides the bytes of a result: two with equal identities are the same."""

    settled: dict[str, Json]  # what decides the bytes; the manifest holds it under the same names
    place: object = None  # where the inputs are; known to the staging key only
    # The `inputs` of run.json; None where a change would not show.
    stamps: Sequence[InputStamp] | None = None
    location: str | None = None  # where equal stamps mean equal inputs; None: anywhere
    # Gives the `inputs` of the manifest, where the stamps differ; None: it has none of its own.
    entries: Callable[[], list[InputEntry]] | None = None
    # How a difference in `settled` is told where the two values say nothing to people.
    words: Mapping[str, str] = field(default_factory=dict)
    further: Callable[[FinishedResult], str | None] = lambda _: None  # another difference
    # What hashes in `settled` are made of, so that jobs that differ can say in what.
    details: Mapping[str, object] = field(default_factory=dict)

    def key(self) -> str:
        """Return the staging key, which knows the inputs by place and stamps."""
        return json_digest([self.settled, self.place, self.stamped_inputs()])

    def difference(self, result: FinishedResult) -> str | None:
        """Return what tells a finished result from the one that this run would make, or None."""
        theirs = {name: result.manifest.get(name) for name in self.settled}
        differs = describe_difference(self.settled, theirs, self.words) or self.further(result)
        if differs or self.entries is None:
            return differs or None
        if self.has_equal_stamps(result):
            return None
        try:  # else by content
            same = result.manifest.get("inputs") == self.entries()
        except IngotError:
            same = False  # the run will say what is wrong with the file
        return None if same else "other input files"

    def stamped_inputs(self) -> object:
        """Return the stamps, with their location if it counts, as run.json holds them."""
        if self.stamps is None or self.location is None:
            return self.stamps
        return {"location": self.location, "files": self.stamps}

    def has_equal_stamps(self, result: FinishedResult) -> bool:
        """Check that a finished result was made of files with these stamps."""
        stamps = result.run.get("inputs")
        return stamps is not None and _without_none(stamps) == _without_none(self.stamped_inputs())

    def job_document(self) -> dict[str, Json]:
        """Return what decides the bytes, the inputs too, as it can be compared in words."""
        files = {
            one["name"]: {key: value for key, value in one.items() if key != "name"}
            for one in self.stamps or ()
        }
        location = self.place if self.stamps is None else self.location or self.place
        inputs = {"place": location, "files": files}
        return dict(json.loads(json.dumps({**self.settled, **self.details, "inputs": inputs})))

    def job_difference(self, document: dict[str, Json]) -> str:
        """Return what tells a noted job from this one, in words."""
        difference = describe_difference(self.job_document(), document, self.words)
        return difference or "the same input and options, worked on in another way"


def describe_difference(
    requested: Mapping[str, object],
    existing: Mapping[str, object],
    words: Mapping[str, str] | None = None,
    form: str = "{} is {} (requested: {})",
) -> str:
    """Return what differs between two identities, by `words` or as `limit is 5 (requested: 10)`."""
    messages = _WORDS | dict(words or {})
    lines = [
        messages.get(name) or form.format(name, _value_text(theirs), _value_text(ours))
        for name, ours, theirs in _differing_values(requested, existing, "", messages)
    ]
    lines = list(dict.fromkeys(lines))
    suffix = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + suffix


def _differing_values(
    ours: object, theirs: object, name: str, messages: Mapping[str, str]
) -> Iterator[tuple[str, object, object]]:
    if ours == theirs:
        return
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping) and name not in messages:
        for key in dict.fromkeys([*ours, *theirs]):
            inner = f"{name}.{key}" if name else key
            yield from _differing_values(ours.get(key), theirs.get(key), inner, messages)
    else:
        yield name, ours, theirs


def _value_text(value: object) -> str:
    return "not set" if value is None else shorten_text(json.dumps(value, ensure_ascii=False), 80)


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value
