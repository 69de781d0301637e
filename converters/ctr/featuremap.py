"""The featuremap: which raw fields become which feature columns, and how.

A YAML file that people review; `schemas/featuremap.schema.json` is its shape, `docs/ctr.md` its
meaning. What the schema cannot say is checked here, and every problem is told at once.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml

from ingot.converters.contracts import violations
from ingot.converters.errors import FeaturemapError, Problem

BUNDLED: Final = ("aliccp",)
VOCAB, HASH, HYBRID = "vocab", "hash", "hybrid"
_LARGEST = 32 << 20  # bytes of a featuremap file


@dataclass(frozen=True, kw_only=True)
class TokenSelect:
    """How the tokens of a multi-value feature are ordered and cut to `max_len`.

    Attributes:
        strategy: auto (auto_mix for rows with informative values of a feature with `use_value`,
            else topk_by_freq) | auto_mix | topk_by_freq.
        non_one_ratio_gte: values are informative if at least this share is not 1.0,
        value_std_gte: or if their population standard deviation is at least this.
        value_fraction: share of `max_len`, rounded up, that auto_mix takes by value before it
            goes on by frequency.
    """

    strategy: str = "auto"
    non_one_ratio_gte: float = 0.05
    value_std_gte: float = 0.001
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
    token_select: TokenSelect = TokenSelect()

    @property
    def is_multi_hot(self) -> bool:
        """Whether a row holds a list of ids."""
        return self.max_len is not None

    @property
    def source(self) -> tuple[int, str]:
        """Where its tokens come from; features with the same share one vocabulary."""
        return self.src, self.field

    def num_embeddings(self, tail_ids: str = "disjoint") -> int:
        """One more than the largest id that the feature can have."""
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
        """Every (src, field) that a feature reads, once, in the features' order."""
        return tuple(dict.fromkeys(feature.source for feature in self.features))

    def of_src(self, src: int) -> tuple[Feature, ...]:
        """The features of the skeleton or table (0), or of the common features (1)."""
        return tuple(feature for feature in self.features if feature.src == src)

    @cached_property
    def sha256(self) -> str:
        """The hash of what the featuremap says, whatever its file looks like."""
        document = json.dumps(to_document(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(document.encode()).hexdigest()


def load(name: str | Path) -> FeatureMap:
    """The bundled featuremap of that name, or the one in a file.

    Args:
        name: a name of `BUNDLED`, or the path of a YAML file.

    Raises:
        FeaturemapError: no such file, no YAML, against the schema, or contradicting itself.
    """
    where = str(name)
    if where in BUNDLED:
        bundled = resources.files("ingot.schemas") / "featuremaps" / f"{where}.yaml"
        return parse(bundled.read_text("utf-8"), where)
    path = Path(name)
    try:
        if path.stat().st_size > _LARGEST:
            raise _unreadable(where, f"larger than {_LARGEST >> 20} MiB: no featuremap")
        return parse(path.read_text("utf-8"), where)
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "not UTF-8"
        known = f"; there is {', '.join(BUNDLED)} and the path of any file"
        raise _unreadable(where, f"cannot be read: {said}{known}") from error


def parse(text: str, where: str) -> FeatureMap:
    """A featuremap from its YAML.

    Args:
        text: YAML with one mapping.
        where: names the text in errors.

    Raises:
        FeaturemapError: no YAML, against the schema, or contradicting itself.
    """
    try:
        document = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        said = " ".join(str(error).split()) or "nested too deep"
        raise _unreadable(where, f"no YAML: {said}") from error
    problems = list(_shape(document))
    if not problems:
        problems = list(_contradictions(document))
    if problems:
        raise FeaturemapError(where, tuple(problems))
    return replace(_build(document), text=text)


def to_document(featuremap: FeatureMap) -> dict[str, Any]:
    """The featuremap as plain JSON that the schema accepts, every default written out."""
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
    if feature.column is None:
        del document["column"]
    if not feature.is_multi_hot:
        del document["token_select"]
    return document


def dump(document: Mapping[str, Any], *, heading: str = "") -> str:
    """A featuremap's document as YAML that `parse` reads, a feature on a line.

    Args:
        document: as the schema has it.
        heading: comment lines before it, each with its `#`.
    """
    features = document["features"]
    rest = {key: value for key, value in document.items() if key != "features"}
    lines = [heading.rstrip("\n")] if heading else []
    if rest:
        lines.append(yaml.safe_dump(rest, sort_keys=False, allow_unicode=True).rstrip("\n"))
    lines.append("features:")
    for one in features:
        flow = yaml.safe_dump(
            one, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**9
        )
        lines.append(f"  - {flow.rstrip()}")
    return "\n".join(lines) + "\n"


def _unreadable(where: str, said: str) -> FeaturemapError:
    return FeaturemapError(where, (Problem("", "unreadable", "a featuremap", said),))


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which can blow up, and without keys that stand twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "an alias is not read", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401
        seen: set[object] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name in seen:
                said = f"the key {name!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, said, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _shape(document: object) -> Iterator[Problem]:
    """What the JSON Schema says, and the trap of YAML's numbers."""
    if not isinstance(document, dict):
        yield Problem("", "schema", "keys and values", type(document).__name__)
        return
    for pointer, message in violations("featuremap", document):
        hint = ""
        if pointer.endswith("/field") and "is not of type 'string'" in message:
            hint = " (quote it: field: '110_14')"
        yield Problem(pointer, "schema", "what docs/ctr.md says", message[:300] + hint)


_SIZES = {
    VOCAB: (True, False),
    HASH: (False, True),
    HYBRID: (True, True),
}


def _contradictions(document: Mapping[str, Any]) -> Iterator[Problem]:
    """What a schema cannot say of a featuremap."""
    names: dict[str, int] = {}
    for index, one in enumerate(document["features"]):
        at = f"/features/{index}"
        name = one["name"]
        if name in names:
            got = f"{name}, as feature {names[name]}"
            yield Problem(f"{at}/name", "repeated", "a name of its own", got)
        names.setdefault(name, index)
        yield from _feature_contradictions(at, one)
    taken = {f"{name}_idx" for name in names} | {f"{name}_val" for name in names}
    for name in names.keys() & taken:
        yield Problem(f"/features/{names[name]}/name", "repeated", "no other's column", name)
    table = document.get("table")
    if table is None:
        return
    for index, one in enumerate(document["features"]):
        if one.get("src", 0) != 0:
            expected = "0: a table has no common features"
            yield Problem(f"/features/{index}/src", "contradiction", expected, "1")
    if table.get("token_separator", ",") == table.get("value_separator", ":"):
        got = repr(table.get("value_separator", ":"))
        yield Problem("/table/value_separator", "contradiction", "not the token_separator", got)


def _feature_contradictions(at: str, one: Mapping[str, Any]) -> Iterator[Problem]:
    src = one.get("src", 0)
    if not one["name"].startswith(f"f{src}_"):
        yield Problem(f"{at}/name", "contradiction", f"f{src}_..., as src is {src}", one["name"])
    for key, wanted in zip(
        ("vocab_num_tokens", "hash_bucket"), _SIZES[one["encoding"]], strict=True
    ):
        given = one.get(key)
        if wanted and given is None:
            expected = f"a number, as encoding is {one['encoding']}"
            yield Problem(f"{at}/{key}", "contradiction", expected, "nothing")
        if not wanted and given is not None:
            expected = f"nothing, as encoding is {one['encoding']}"
            yield Problem(f"{at}/{key}", "contradiction", expected, str(given))
    multi = one.get("max_len") is not None
    if one.get("is_multi_hot", multi) != multi:
        expected = "a number" if one["is_multi_hot"] else "nothing"
        got = str(one.get("max_len") or "nothing")
        yield Problem(f"{at}/max_len", "contradiction", f"{expected}, as is_multi_hot says", got)
    if "token_select" in one and not multi:
        expected = "a max_len to select for"
        yield Problem(f"{at}/token_select", "contradiction", expected, "a single value")


_CONSTANT = ("featuremap_version", "vocab_first_id", "hash_first_id")


def _build(document: Mapping[str, Any]) -> FeatureMap:
    rest = {key: value for key, value in document.items() if key not in _CONSTANT}
    general = rest.pop("token_select", {})
    table = rest.pop("table", None)
    features = []
    for one in rest.pop("features"):
        given = {key: value for key, value in one.items() if key != "is_multi_hot"}
        select = TokenSelect(**{**general, **given.pop("token_select", {})})
        features.append(Feature(**{"src": 0, **given, "token_select": select}))
    if table is not None:
        missing = tuple(table.get("missing", ("",)))
        table = Table(**{**table, "missing": missing})
    return FeatureMap(
        features=tuple(features), token_select=TokenSelect(**general), table=table, **rest
    )
