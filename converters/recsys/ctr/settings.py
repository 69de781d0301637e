"""The settings of CTR builds and drafts."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from ingot.converters.errors import ConversionError
from ingot.converters.settings import Setting

if TYPE_CHECKING:
    from ingot.converters.recsys.ctr.build.inputs import Aliccp, PlainTable
    from ingot.converters.recsys.ctr.featuremap import FeatureMap

_RAW: Final = "Raw data"
_OVERRIDES: Final = "Overrides of the featuremap"
_KNOWN: Final = "Known columns"


@dataclass(frozen=True, kw_only=True)
class RawFiles:
    """The raw data of a build: the two files of Ali-CCP, or one table."""

    skeleton: Annotated[
        str | None, Setting("Ali-CCP's sample_skeleton file.", metavar="FILE", section=_RAW)
    ] = None
    common: Annotated[
        str | None, Setting("Ali-CCP's common_features file.", metavar="FILE", section=_RAW)
    ] = None
    table: Annotated[
        str | None,
        Setting(
            "CSV, TSV, Parquet or Arrow table, instead of `skeleton` and `common`.",
            metavar="FILE",
            section=_RAW,
        ),
    ] = None

    def __post_init__(self) -> None:
        pair = (self.skeleton is not None, self.common is not None)
        if pair not in ((True, True), (False, False)) or any(pair) == (self.table is not None):
            raise ConversionError("", "give `skeleton` and `common`, or `table` alone")

    def inputs(self) -> "Aliccp | PlainTable":
        """Return the inputs of a build."""
        from ingot.converters.recsys.ctr.build.inputs import Aliccp, PlainTable

        if self.skeleton is not None and self.common is not None:
            return Aliccp(skeleton=self.skeleton, common=self.common)
        return PlainTable(table=self.table or "")


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Settings of a build that replace those of the featuremap; None: as the featuremap says."""

    train_ratio: Annotated[
        float | None,
        Setting(
            "Share of the entities (0 to 1) whose rows go to train.",
            metavar="SHARE",
            section=_OVERRIDES,
            flag="train-fraction",
            minimum=0.0,
            maximum=1.0,
        ),
    ] = None
    click_mask: Annotated[
        Literal["clicked", "exposed"] | None,
        Setting(
            "Value of click_mask: y_ctr (clicked), or 1 in every row (exposed).",
            section=_OVERRIDES,
        ),
    ] = None
    tail_ids: Annotated[
        Literal["disjoint", "contract"] | None,
        Setting(
            "Where ids of hashed tokens of hybrids start: after the vocabulary (disjoint) "
            "or at 2 (contract).",
            section=_OVERRIDES,
        ),
    ] = None
    funnel: Annotated[
        Literal["keep", "drop", "coerce"] | None,
        Setting(
            "Rows with a conversion and no click: keep them, drop them, or remove the conversion.",
            section=_OVERRIDES,
        ),
    ] = None

    def apply_to(self, featuremap: "FeatureMap") -> "FeatureMap":
        """Return the featuremap with these settings."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(featuremap, **{name: v for name, v in values.items() if v is not None})


@dataclass(frozen=True, kw_only=True)
class ChosenColumns:
    """Columns that a person names; None: detected."""

    click: Annotated[
        str | None,
        Setting("Column of the click, 0 or 1.", metavar="COLUMN", section=_KNOWN, flag="label"),
    ] = None
    conversion: Annotated[
        str | None, Setting("Column of the conversion, 0 or 1.", metavar="COLUMN", section=_KNOWN)
    ] = None
    entity: Annotated[
        str | None,
        Setting(
            "Column, such as the user, that decides train or valid: equal values, one split.",
            metavar="COLUMN",
            section=_KNOWN,
        ),
    ] = None
    sample: Annotated[
        str | None,
        Setting(
            "Column of the row's own id; duplicates are counted.",
            metavar="COLUMN",
            section=_KNOWN,
            flag="sample-id",
        ),
    ] = None
    features: Annotated[
        tuple[str, ...],
        Setting(
            "Column to use as a feature that is left out by default, such as the entity; may be "
            "repeated.",
            metavar="COLUMN",
            section=_KNOWN,
            flag="feature",
            repeatable=True,
        ),
    ] = ()
