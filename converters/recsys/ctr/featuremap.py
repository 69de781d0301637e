"""The featuremap: which raw fields become which feature columns, and how.

A YAML file that people review; `schemas/featuremap.schema.json` is its shape, `docs/ctr.md` its
meaning. What the schema cannot say is checked here, and every problem is told at once.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ingot.converters.errors import FeaturemapError, Problem
from ingot.converters.json_yaml import decode, dump_yaml_line, json_digest, read_yaml, violations

BUNDLED: Final = ("aliccp",)
VOCAB, HASH, HYBRID = "vocab", "hash", "hybrid"
_LARGEST = 4 << 20  # bytes of a featuremap file: some 20,000 features


@dataclass(frozen=True, kw_only=True)
class TokenSelect:
    """How the tokens of a multi-value feature are ordered and cut to `max_len`."""

    # auto (auto_mix for rows with informative values of a feature with `use_value`, else
    # topk_by_freq) | auto_mix | topk_by_freq
    strategy: str = "auto"
    non_one_ratio_gte: float = 0.05  # values are informative if at least this share is not 1.0,
    value_std_gte: float = 0.001  # or if their population standard deviation is at least this
    # share of `max_len`, rounded up, that auto_mix takes by value before it goes on by frequency
    value_fraction: float = 2 / 3


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One feature of the contract; see the schema for the attributes."""

    name: str
    src: int
    field: str
    encoding: str
    vocab_num_tokens: int | None = None
    hash_bucket: int | None = None
    max_len: int | None = None
    use_value: bool = False
    column: str | None = None
    token_separator: str | None = None  # None: as `table` says; so is the next one
    value_separator: str | None = None
    token_select: TokenSelect = TokenSelect()

    @property
    def is_multi_hot(self) -> bool:
        """Return whether a row holds a list of ids."""
        return self.max_len is not None

    @property
    def source(self) -> tuple[int, str]:
        """Return where its tokens come from; features with the same share one vocabulary."""
        return self.src, self.field

    def num_embeddings(self, tail_ids: str = "disjoint") -> int:
        """Return one more than the largest id that the feature can have."""
        vocabulary = (self.vocab_num_tokens or 0) + 3
        bucket = self.hash_bucket or 0
        if self.encoding == VOCAB:
            return vocabulary
        if self.encoding == HASH:
            return 2 + bucket
        return vocabulary + bucket if tail_ids == "disjoint" else max(vocabulary, 2 + bucket)


@dataclass(frozen=True, kw_only=True)
class Table:
    """The columns of a plain table, and how its text cells are split; see the schema."""

    entity_id: str
    y_ctr: str
    y_cvr: str | None
    sample_id: str | None = None
    token_separator: str = ","
    value_separator: str = ":"
    missing: tuple[str, ...] = ("",)


@dataclass(frozen=True, kw_only=True)
class FeatureMap:
    """A checked featuremap; see the schema for the attributes. `text` is the file as it was."""

    features: tuple[Feature, ...]
    split_seed: int = 20260121
    train_ratio: float = 0.95
    hash_seed: int = 17
    click_mask: str = "clicked"
    tail_ids: str = "disjoint"
    funnel: str = "keep"
    token_select: TokenSelect = TokenSelect()
    table: Table | None = None
    text: str = field(default="", compare=False, repr=False)

    @cached_property
    def sources(self) -> tuple[tuple[int, str], ...]:
        """Return every (src, field) that a feature reads, once, in the features' order."""
        return tuple(dict.fromkeys(feature.source for feature in self.features))

    def of_src(self, src: int) -> tuple[Feature, ...]:
        """Return the features of the skeleton or table (0), or of the common features (1)."""
        return tuple(feature for feature in self.features if feature.src == src)

    @cached_property
    def sha256(self) -> str:
        """Return the hash of what the featuremap says, whatever its file looks like."""
        return json_digest(to_document(self))


def load(name: str | Path) -> FeatureMap:
    """Return the bundled featuremap of that name, or the one in a file.

    Args:
        name: a name of `BUNDLED`, or the path of a YAML file.

    Raises:
        FeaturemapError: no such file, no YAML, against the schema, or contradicting itself.
    """
    location = str(name)
    if location in BUNDLED:
        bundled = resources.files("ingot.schemas") / "featuremaps" / f"{location}.yaml"
        return parse(bundled.read_text("utf-8"), location)
    path = Path(name)
    try:
        if path.stat().st_size > _LARGEST:
            raise _unreadable_error(location, f"larger than {_LARGEST >> 20} MiB: no featuremap")
        return parse(path.read_text("utf-8"), location)
    except (OSError, ValueError) as error:  # no UTF-8, or a name that no file can have
        reason = getattr(error, "strerror", None) or "not UTF-8"
        reason = reason if isinstance(error, OSError | UnicodeDecodeError) else str(error)
        known = f"; there is {', '.join(BUNDLED)} and the path of any file"
        raise _unreadable_error(location, f"cannot be read: {reason}{known}") from error


def parse(text: str, where: str) -> FeatureMap:
    """Return a featuremap from its YAML."""
    try:
        document = read_yaml(text)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        raise _unreadable_error(where, f"no YAML: {reason}") from error
    problems = list(_check_shape(document))
    if not problems:
        problems = list(_contradictions(document))
    if problems:
        raise FeaturemapError(where, tuple(problems))
    general = document.get("token_select", {})
    features = [
        {"src": 0, **one, "token_select": {**general, **one.get("token_select", {})}}
        for one in document["features"]
    ]
    return decode(FeatureMap, {**document, "features": features, "text": text})


def to_document(featuremap: FeatureMap) -> dict[str, Any]:
    """Return the featuremap as plain JSON that the schema accepts, every default written out."""
    document: dict[str, Any] = {
        "featuremap_version": 1,
        "split_seed": featuremap.split_seed,
        "train_ratio": featuremap.train_ratio,
        "hash_seed": featuremap.hash_seed,
        "vocab_first_id": 3,
        "hash_first_id": 2,
        "click_mask": featuremap.click_mask,
        "tail_ids": featuremap.tail_ids,
        "funnel": featuremap.funnel,
    }
    if featuremap.table is not None:
        document["table"] = {**asdict(featuremap.table), "missing": list(featuremap.table.missing)}
    document["features"] = [_feature_document(feature) for feature in featuremap.features]
    return document


def _feature_document(feature: Feature) -> dict[str, Any]:
    document = asdict(feature)
    for key in ("column", "token_separator", "value_separator"):
        if document[key] is None:
            del document[key]
    if not feature.is_multi_hot:
        del document["token_select"]
    return document


def dump(document: Mapping[str, Any], *, heading: str = "") -> str:
    """Return a featuremap's document as YAML that `parse` reads, a feature on a line."""
    rest = [(key, value) for key, value in document.items() if key not in ("features", "table")]
    lines = [heading.rstrip("\n")] if heading else []
    lines += [f"{key}: {dump_yaml_line(value)}" for key, value in rest]
    if "table" in document:
        lines += [
            "table:",
            *(f"  {key}: {dump_yaml_line(one)}" for key, one in document["table"].items()),
        ]
    lines += ["features:", *(f"  - {dump_yaml_line(one)}" for one in document["features"])]
    return "\n".join(lines) + "\n"


def _unreadable_error(location: str, problem: str) -> FeaturemapError:
    return FeaturemapError(location, (Problem("", "unreadable", "a featuremap", problem),))


_WHOLE = frozenset({"split_seed", "hash_seed", "vocab_num_tokens", "hash_bucket", "max_len"})
_TEXTS = frozenset({"field", "column", "entity_id", "y_ctr", "y_cvr", "sample_id", "missing"})


def _check_shape(document: object) -> Iterator[Problem]:
    """What the JSON Schema says, and the trap of YAML's numbers."""
    if not isinstance(document, dict):
        yield Problem("", "schema", "keys and values", type(document).__name__)
        return
    for pointer, message in violations("featuremap", document):
        is_text = _TEXTS.intersection(pointer.split("/"))
        unquoted = is_text and "is not of type 'string'" in message
        hint = " (quote it: '110_14' is a text, 110_14 a number)" if unquoted else ""
        yield Problem(pointer, "schema", "what docs/ctr.md says", message[:300] + hint)
    yield from _check_values("", document)


def _check_values(pointer: str, value: object) -> Iterator[Problem]:
    """What a schema takes and nobody can use: NaN, 5.0 for a count, halves of characters."""
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        yield Problem(pointer, "schema", "whole characters", ascii(value))
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield Problem(pointer, "schema", "a finite number", str(value))
        elif pointer.rpartition("/")[2] in _WHOLE:
            yield Problem(pointer, "schema", "a whole number without a point", str(value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _check_values(f"{pointer}/{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _check_values(f"{pointer}/{index}", inner)


_SIZES = {VOCAB: (True, False), HASH: (False, True), HYBRID: (True, True)}


def _contradictions(document: Mapping[str, Any]) -> Iterator[Problem]:
    """What a schema cannot say of a featuremap."""
    names: dict[str, int] = {}
    for index, one in enumerate(document["features"]):
        pointer = f"/features/{index}"
        name = one["name"]
        if name in names:
            actual = f"{name}, as feature {names[name]}"
            yield Problem(f"{pointer}/name", "repeated", "a name of its own", actual)
        names.setdefault(name, index)
        yield from _feature_contradictions(pointer, one, is_table="table" in document)
    column_names = {f"{name}_idx" for name in names} | {f"{name}_val" for name in names}
    for name in names.keys() & column_names:
        yield Problem(f"/features/{names[name]}/name", "repeated", "no other's column", name)
    if "table" in document:
        yield from _table_contradictions(document["table"], document["features"])


_SEPARATORS: Final = {"token_separator": ",", "value_separator": ":"}


def _table_contradictions(
    table: Mapping[str, Any], features: Sequence[Mapping[str, Any]]
) -> Iterator[Problem]:
    """What cannot be of a plain table: common features, labels that are features, ..."""
    roles: dict[str, str] = {}
    for key in ("entity_id", "y_ctr", "y_cvr", "sample_id"):
        column = table.get(key)
        if column is not None and roles.setdefault(column, key) != key:
            expected = f"another column than {roles[column]}"
            yield Problem(f"/table/{key}", "contradiction", expected, column)
    of_field: dict[str, str] = {}
    of_key: dict[tuple[str, str], str] = {}
    for index, feature in enumerate(features):
        pointer, field_name = f"/features/{index}", feature["field"]
        column = feature.get("column") or field_name
        if feature.get("src", 0) != 0:
            expected = "0: a table has no common features"
            yield Problem(f"{pointer}/src", "contradiction", expected, "1")
        if roles.get(column) in ("y_ctr", "y_cvr"):
            expected = f"no label, as {column} is the table's {roles[column]}"
            key = "column" if feature.get("column") else "field"
            yield Problem(f"{pointer}/{key}", "contradiction", expected, column)
        if of_field.setdefault(field_name, column) != column:
            expected = f"{of_field[field_name]}, as of the other feature of field {field_name}"
            yield Problem(f"{pointer}/column", "contradiction", expected, column)
        marks = {key: feature.get(key, table.get(key, usual)) for key, usual in _SEPARATORS.items()}
        for key, mark in marks.items():
            former = of_key.setdefault((field_name, key), mark)
            if former != mark:
                expected = f"{former!r}, as of the other feature of field {field_name}"
                yield Problem(f"{pointer}/{key}", "contradiction", expected, repr(mark))
        if feature.get("use_value") and _SEPARATORS.keys() & feature.keys():
            yield from _separator_contradictions(pointer, marks)
    yield from _separator_contradictions("/table", {**_SEPARATORS, **table})


def _separator_contradictions(pointer: str, marks: Mapping[str, Any]) -> Iterator[Problem]:
    tokens, values = marks["token_separator"], marks["value_separator"]
    if tokens in values:
        expected = f"no text with the token_separator {tokens!r} in it"
        yield Problem(f"{pointer}/value_separator", "contradiction", expected, repr(values))


def _feature_contradictions(
    pointer: str, feature: Mapping[str, Any], *, is_table: bool
) -> Iterator[Problem]:
    src = feature.get("src", 0)
    if not feature["name"].startswith(f"f{src}_"):
        yield Problem(
            f"{pointer}/name", "contradiction", f"f{src}_..., as src is {src}", feature["name"]
        )
    for key, required in zip(
        ("vocab_num_tokens", "hash_bucket"), _SIZES[feature["encoding"]], strict=True
    ):
        facts = feature.get(key)
        if required and facts is None:
            expected = f"a number, as encoding is {feature['encoding']}"
            yield Problem(f"{pointer}/{key}", "contradiction", expected, "nothing")
        if not required and facts is not None:
            expected = f"nothing, as encoding is {feature['encoding']}"
            yield Problem(f"{pointer}/{key}", "contradiction", expected, str(facts))
    multi = feature.get("max_len") is not None
    if feature.get("is_multi_hot", multi) != multi:
        expected = "a number" if feature["is_multi_hot"] else "nothing"
        actual = str(feature.get("max_len") or "nothing")
        yield Problem(
            f"{pointer}/max_len", "contradiction", f"{expected}, as is_multi_hot says", actual
        )
    if "token_select" in feature and not multi:
        expected = "a max_len to select for"
        yield Problem(f"{pointer}/token_select", "contradiction", expected, "a single value")
    for key in () if is_table else _SEPARATORS.keys() & feature.keys():
        yield Problem(
            f"{pointer}/{key}", "contradiction", "nothing, as there is no table", feature[key]
        )
