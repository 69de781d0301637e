"""The settings of CTR builds and drafts."""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from ingot.converters.errors import ConversionError
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.converters.recsys.ctr.featuremap import FeatureMap
    from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp, PlainTable

_raw = partial(Setting, metavar="FILE", section="Raw data")
_override = partial(Setting, section="Overrides of the featuremap")
_known = partial(Setting, metavar="COLUMN", section="Known columns")


@dataclass(frozen=True, kw_only=True)
class RawFiles:
    """The raw data of a build: the two files of Ali-CCP, or one table."""

    skeleton: Annotated[str | None, _raw("Ali-CCP's sample_skeleton file.")] = None
    common: Annotated[str | None, _raw("Ali-CCP's common_features file.")] = None
    table: Annotated[
        str | None, _raw("CSV, TSV, Parquet or Arrow table, instead of `skeleton` and `common`.")
    ] = None

    def __post_init__(self) -> None:
        raw_pair = (self.skeleton is not None, self.common is not None)
        if raw_pair not in ((True, True), (False, False)) or any(raw_pair) == (
            self.table is not None
        ):
            raise ConversionError("", "give `skeleton` and `common`, or `table` alone")

    def inputs(self) -> "Aliccp | PlainTable":
        """Return the inputs of a build."""
        from ingot.converters.recsys.ctr.preprocess.inputs import Aliccp, PlainTable

        if self.skeleton is not None and self.common is not None:
            return Aliccp(skeleton=self.skeleton, common=self.common)
        return PlainTable(table=self.table or "")


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Settings of a build that replace those of the featuremap; None: as the featuremap says."""

    train_ratio: Annotated[
        float | None,
        _override(
            "Share of the entities (0 to 1) whose rows go to train.",
            metavar="SHARE",
            flag="train-fraction",
            minimum=0.0,
            maximum=1.0,
        ),
    ] = None
    click_mask: Annotated[
        Literal["clicked", "exposed"] | None,
        _override("Value of click_mask: y_ctr (clicked), or 1 in every row (exposed)."),
    ] = None
    tail_ids: Annotated[
        Literal["disjoint", "contract"] | None,
        _override(
            "Where ids of hashed tokens of hybrids start: after the vocabulary (disjoint) "
            "or at 2 (contract)."
        ),
    ] = None
    funnel: Annotated[
        Literal["keep", "drop", "coerce"] | None,
        _override(
            "Rows with a conversion and no click: keep them, drop them, or remove the conversion."
        ),
    ] = None

    def apply_to(self, featuremap: "FeatureMap") -> "FeatureMap":
        """Return the featuremap with these settings."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(featuremap, **{name: v for name, v in values.items() if v is not None})


@dataclass(frozen=True, kw_only=True)
class ChosenColumns:
    """Columns that a person names; None: detected."""

    click: Annotated[str | None, _known("Column of the click, 0 or 1.", flag="label")] = None
    conversion: Annotated[str | None, _known("Column of the conversion, 0 or 1.")] = None
    entity: Annotated[
        str | None,
        _known("Column, such as the user, that decides train or valid: equal values, one split."),
    ] = None
    sample: Annotated[
        str | None, _known("Column of the row's own id; duplicates are counted.", flag="sample-id")
    ] = None
    features: Annotated[
        tuple[str, ...],
        _known(
            "Column to use as a feature that is left out by default, such as the entity; may be "
            "repeated.",
            flag="feature",
            repeatable=True,
        ),
    ] = ()
