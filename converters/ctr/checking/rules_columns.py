"""The rules on a file's columns and their types, and which columns can be looked into."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ingot.converters.ctr import contract
from ingot.converters.ctr.checking.findings import Findings, Place
from ingot.converters.ctr.featuremap import Feature, FeatureMap

_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A column as the contract declares it.

    Attributes:
        name: of the column.
        kind: its type, as `parquet_type` gives it.
        missing: the rule that its absence breaks.
        shape: the rule that a list in place of a scalar breaks, or the other way round.
        type: the rule that another type of the scalars or elements breaks.
    """

    name: str
    kind: pa.DataType
    missing: str
    shape: str
    type: str


def declared(featuremap: FeatureMap | None) -> tuple[Declared, ...]:
    """Every column of the contract; the six of section 1 alone where no featuremap is known."""
    columns = [_required(name) for name in contract.REQUIRED]
    for feature in featuremap.features if featuremap else ():
        columns += _pair(feature)
    return tuple(columns)


def _required(name: str) -> Declared:
    labels = name in contract.LABELS
    kinds = {contract.ROW_ID: pa.int64(), contract.ENTITY_ID: pa.string()}
    rule = "R1.2" if labels else "R1.3"
    kind = kinds.get(name, pa.float32())
    return Declared(name=name, kind=kind, missing="R1.1", shape=rule, type=rule)


def _pair(feature: Feature) -> Iterator[Declared]:
    wanted = [(contract.index_column(feature), contract.index_type(feature), "R2.1")]
    if feature.use_value:
        wanted.append((contract.value_column(feature), contract.value_type(feature), "R2.2"))
    for name, kind, missing in wanted:
        yield Declared(
            name=name, kind=parquet_type(kind), missing=missing, shape="R2.4", type="R2.5"
        )


def parquet_type(kind: pa.DataType) -> pa.DataType:
    """The type that Parquet itself knows: large, viewed and dictionary forms are the plain ones."""
    if pa.types.is_dictionary(kind):
        return parquet_type(kind.value_type)
    if any(is_list(kind) for is_list in _LISTS):
        return pa.list_(parquet_type(kind.value_type))
    return pa.string() if any(is_text(kind) for is_text in _TEXTS) else kind


def check_columns(
    schema: pa.Schema, featuremap: FeatureMap | None, file: str, found: Findings
) -> dict[str, pa.DataType]:
    """Checks names and types of a file's columns.

    Args:
        schema: of the file.
        featuremap: None where none is known: its columns are then not looked at.
        file: its path in the folder.
        found: takes what is wrong.

    Returns:
        The declared columns that can be looked into, also where their numbers are of another type,
        and the types to look at them in.
    """
    wanted = {one.name: one for one in declared(featuremap)}
    times = Counter(schema.names)
    for name in times:
        _check_name(name, times[name], featuremap, wanted, Place(file=file, column=name), found)
    usable = {}
    for name, one in wanted.items():
        if times[name] == 0:
            found.add(one.missing, Place(file=file, column=name, found="no such column"))
        elif times[name] == 1 and _check_type(schema.field(name).type, one, file, found):
            usable[name] = one.kind
    return usable


def _check_name(
    name: str,
    times: int,
    featuremap: FeatureMap | None,
    wanted: dict[str, Declared],
    place: Place,
    found: Findings,
) -> None:
    def add(rule: str, said: str) -> None:
        found.add(rule, Place(file=place.file, column=place.column, found=said))

    if times > 1:
        add("R0.3", f"{times} columns of this name")
    if name in wanted or featuremap is None:
        return
    spare = {contract.value_column(one) for one in featuremap.features}
    if name in spare:
        add("R2.3", "a column; the featuremap says use_value: false")
    else:
        add("R0.3", "a column that is not declared")


def _check_type(kind: pa.DataType, one: Declared, file: str, found: Findings) -> bool:
    """Whether a column can be looked into; what is wrong with its type is noted."""
    kind = parquet_type(kind)
    if kind == one.kind:
        return True
    place = Place(file=file, column=one.name, found=f"{_name(kind)}, not {_name(one.kind)}")
    same_shape = pa.types.is_list(kind) == pa.types.is_list(one.kind)
    found.add(one.type if same_shape else one.shape, place)
    return same_shape and _is_number(_element(kind)) and _is_number(_element(one.kind))


def _element(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_list(kind) else kind


def _name(kind: pa.DataType) -> str:
    said = str(_element(kind))
    said = {"float": "float32", "double": "float64", "halffloat": "float16"}.get(said, said)
    return f"list<{said}>" if pa.types.is_list(kind) else said


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )
