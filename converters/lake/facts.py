"""What is known of one data set of a lake: the row of the catalog, and what its page shows.

Plain values that go through JSON: the lake's state keeps them between runs.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Final, Literal

from ingot.converters.rows import Json

Status = Literal[
    "converted", "nothing", "other", "waiting", "resting", "failed", "rejected", "gone"
]
STATUSES: Final[dict[Status, str]] = {
    "converted": "its records are written",
    "nothing": "it holds nothing to train on, which its result says",
    "other": "another command of ingot reads it",
    "waiting": "its proposal waits for a person",
    "resting": "a budget of the model was used up before it had a proposal",
    "failed": "it could not be read or converted",
    "rejected": "a person has rejected its proposal",
    "gone": "its files are not there any more; its result is",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What was measured over all records of one result.

    Attributes:
        records: number of records.
        characters: characters of text in all of them.
        lengths: records by length: the key is the least number of characters of the bin, 0 or a
            power of two; bins without records are left out.
        languages: records by `meta.language`; "" where it is null.
        heard: records of a sample by the language that was recognized in them; "" = none was.
        within: records that repeat an earlier one of the same result.
        samples: a few records, redacted and cut for people.
    """

    records: int = 0
    characters: int = 0
    lengths: dict[int, int] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    within: int = 0
    samples: tuple[dict[str, Json], ...] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "Figures":
        """What `asdict` and JSON made of it."""
        lengths = {int(least): count for least, count in document["lengths"].items()}
        return cls(**{**document, "lengths": lengths, "samples": tuple(document["samples"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One data set's part of one split: records written, repeats left out, tokens (None = none)."""

    name: str
    records: int
    duplicates: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetFacts:
    """One data set of a lake.

    Attributes:
        name: its name in the lake: file name of its mapping, folder of its result.
        place: its folder relative to the root, "." = the root itself.
        status: one of STATUSES.
        why: why it is so, for people; redacted.
        hint: what to do about it, such as the command that reads it; "" = nothing.
        decision: `pt`, `sft`, `irrelevant`, `unmappable`; None before there is a proposal.
        mapper: `rules`, `llm`, `file`, `edited`; None before there is a proposal.
        model: the model that was asked, None = none was.
        confidence: of the proposal, 0..1.
        coverage: share of the sampled records without a hard error, 0..1; None = unknown.
        format: format of its files.
        files: number of files that are read.
        bytes: their bytes as stored.
        left_out: files beside them that are not read, with the reason (the first few).
        left_out_count: how many there are.
        rows: read, converted, rejected, filtered: read is the sum of the others.
        records: written, rejected, filtered, as in the result's manifest.
        rejects: rejected records by reason.
        tokens: tokens of the result, None = not tokenized.
        sequences: their sequences, None likewise.
        figures: measured over its records.
        across: records that repeat one of a data set before it (by name), and none of its own.
        overlaps: records whose text stands in another data set too, by the other's name.
        splits: what of it went into which split.
        spent: calls, chars_sent, tokens_in, tokens_out, cost (USD, None = price unknown) of asking.
        card: what a card beside the data says: title, license, languages, tasks; {} = none.
        mapping: the mapping document, executed or proposed; None = there is none.
        mapping_file: where the mapping lies, relative to the lake's folder or absolute.
        result: folder of the result, relative to the lake's folder; None = there is none.
        fingerprint: of its shape, see `ingot.agent.fingerprint`.
    """

    name: str
    place: str
    status: Status
    why: str = ""
    hint: str = ""
    decision: str | None = None
    mapper: str | None = None
    model: str | None = None
    confidence: float | None = None
    coverage: float | None = None
    format: str = ""
    files: int = 0
    bytes: int = 0
    left_out: tuple[dict[str, str], ...] = ()
    left_out_count: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    rejects: dict[str, int] = field(default_factory=dict)
    tokens: int | None = None
    sequences: int | None = None
    figures: Figures = Figures()
    across: int = 0
    overlaps: dict[str, int] = field(default_factory=dict)
    splits: tuple[Split, ...] = ()
    spent: dict[str, Json] = field(default_factory=dict)
    card: dict[str, Json] = field(default_factory=dict)
    mapping: dict[str, Json] | None = None
    mapping_file: str | None = None
    result: str | None = None
    fingerprint: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Json]) -> "SetFacts":
        """The inverse of `to_json`, also after JSON; unknown fields are left out."""
        known = {one.name for one in fields(cls)}
        kept = {name: value for name, value in document.items() if name in known}
        return cls(
            **{
                **kept,
                "left_out": tuple(kept.get("left_out", ())),
                "figures": Figures.from_json(kept["figures"]) if "figures" in kept else Figures(),
                "splits": tuple(Split(**one) for one in kept.get("splits", ())),
            }
        )

    def as_text(self) -> "SetFacts":
        """The same with texts that can be written: names of files in archives may be no text."""
        return SetFacts.from_json(as_text(self.to_json()))


def as_text(value: Json) -> Json:
    """A value whose texts can be written as UTF-8; what cannot is replaced by `?`."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {as_text(key): as_text(one) for key, one in value.items()}
    return type(value)(map(as_text, value)) if isinstance(value, list | tuple) else value
