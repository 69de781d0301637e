"""The Parquet files of a split, checked against the columns of the contract.

What the tensors depend on is checked: the columns, their types, one layout in all files. The
validator checks whether the values keep the other rules of the contract.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.errors import SourceError
from ingot.converters.output.files import is_store_url
from ingot.converters.output.object_store import local_folder
from ingot.converters.recsys.ctr import contract

_VALIDATE: Final = "validate the folder to see every broken rule"
_IDX, _VAL = "_idx", "_val"


@dataclass(frozen=True, kw_only=True)
class StoredFeature:
    """A feature as the files have it."""

    name: str
    is_multi_hot: bool
    use_value: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Return its columns in the files."""
        index = f"{self.name}{_IDX}"
        return (index, f"{self.name}{_VAL}") if self.use_value else (index,)


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """A row group: `number` in `files[file]`, its `rows`, the `first` of them in the split."""

    file: int
    number: int
    rows: int
    first: int


@dataclass(frozen=True, kw_only=True)
class Split:
    """The files of a split, as their footers tell."""

    where: str
    files: tuple[Path, ...]
    sizes: tuple[int, ...]  # their bytes
    groups: tuple[RowGroup, ...]
    features: tuple[StoredFeature, ...]
    # of every file's name, size, rows and footer, which holds the sizes and statistics of all its
    # parts; the folder's own place does not enter
    fingerprint: str

    @property
    def rows(self) -> int:
        """Return the number of rows of all files."""
        return self.groups[-1].first + self.groups[-1].rows if self.groups else 0

    def select(self, names: Sequence[str] | None) -> tuple[StoredFeature, ...]:
        """Return the features of these names, in the files' order; all for None."""
        if names is None:
            return self.features
        known = {feature.name for feature in self.features}
        for name in names:
            if name not in known:
                close = get_close_matches(name, known, 1) or sorted(known)[:3]
                problem = f"{self.where} has no feature {name!r}; it has {', '.join(close)}"
                raise ValueError(problem + (", ..." if len(known) > len(close) else ""))
        return tuple(feature for feature in self.features if feature.name in set(names))


def columns_of(features: Sequence[StoredFeature]) -> list[str]:
    """Return the contract's columns with these features, in its order."""
    return [*contract.REQUIRED, *(column for feature in features for column in feature.columns)]


def locate_split(data: str | os.PathLike[str], split: str | None = None) -> Split:
    """Find a split and read the footers of its files; the result at a URL is fetched first."""
    result_url, _, last = os.fspath(data).rstrip("/").rpartition("/")
    if split is None and is_store_url(result_url) and last in contract.SPLITS:
        data, split = result_url, last  # the manifest is that of the whole result
    folder = local_folder(data) / (split or "")
    files = _find_files(folder)
    sizes: list[int] = []
    groups: list[RowGroup] = []
    digest = hashlib.sha256()
    first: _Layout | None = None
    for number, path in enumerate(files):
        layout, metadata, size, footer_hash = _read_footer(path)
        _check_same(first, layout, path, files[0])
        first = first or layout
        groups.extend(_row_groups(number, metadata, groups[-1] if groups else None))
        sizes.append(size)
        file_text = f"{path.name}\0{size}\0{metadata.num_rows}\0{footer_hash}\n"
        digest.update(file_text.encode("utf-8", "surrogateescape"))
    if first is None or not groups:
        raise SourceError(str(folder), "holds no rows", "build the split again")
    return Split(
        where=str(folder),
        files=files,
        sizes=tuple(sizes),
        groups=tuple(groups),
        features=first[0],
        fingerprint=digest.hexdigest(),
    )


def _find_files(folder: Path) -> tuple[Path, ...]:
    if folder.is_file():
        return (folder,)
    if not folder.is_dir():
        raise SourceError(str(folder), "this folder does not exist", _missing_advice(folder.parent))
    try:
        files = sorted(path for path in folder.glob("*.parquet") if path.name[0] not in "._")
    except OSError as error:
        raise SourceError(str(folder), f"cannot be listed: {error.strerror}") from error
    if not files:
        raise SourceError(str(folder), "holds no *.parquet files", _missing_advice(folder))
    return tuple(files)


def _missing_advice(folder: Path) -> str:
    present = [name for name in contract.SPLITS if (folder / name).is_dir()]
    if present:
        return f"say which split: split={' or split='.join(map(repr, present))}"
    return "a build writes the folders train and valid"


def _row_groups(file: int, metadata: Any, last: RowGroup | None) -> Iterator[RowGroup]:  # noqa: ANN401
    first = last.first + last.rows if last else 0
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        if rows:
            yield RowGroup(file=file, number=number, rows=rows, first=first)
        first += rows


_Layout = tuple[tuple[StoredFeature, ...], bytes | None]
"""What all files of a split have in common: features, and the profile in the metadata."""


def _read_footer(path: Path) -> tuple[_Layout, Any, int, str]:
    """Return the layout of a file, its metadata, its bytes and a hash of its footer."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - 8, 0))
            length = int.from_bytes(stream.read(4), "little")
            stream.seek(max(size - 8 - length, 0))
            digest = hashlib.sha256(stream.read(length)).hexdigest()
            opened = pq.ParquetFile(stream)
            schema, metadata = opened.schema_arrow, opened.metadata
    except FileNotFoundError as error:
        raise changed_error(path, "removed") from error
    except OSError as error:
        raise SourceError(str(path), f"cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise SourceError(str(path), f"is not a Parquet file: {error}") from error
    profile = (schema.metadata or {}).get(contract.METADATA_KEY)
    return (_stored_features(schema, path), profile), metadata, size, digest


def changed_error(path: Path, change: str = "changed") -> SourceError:
    """Return the error for a file that has changed, or is `removed`."""
    problem = f"was {change} after the split was opened"
    return SourceError(str(path), problem, "leave the files as they are while they are read")


def _check_same(first: _Layout | None, layout: _Layout, path: Path, other: Path) -> None:
    if first is None or layout == first:
        return
    if layout[1] != first[1]:
        problem = f"has another {contract.METADATA_KEY.decode()} in its metadata than {other.name}"
        raise SourceError(str(path), problem, "keep the files of one build in a folder")
    names = sorted({feature.name for feature in {*layout[0]} ^ {*first[0]}})
    if not names:  # the same columns in another order are read by name
        return
    problem = f"its columns of {', '.join(names[:5])} are not those of {other.name}"
    raise SourceError(str(path), problem, "keep the files of one build in a folder")


def _stored_features(schema: Any, path: Path) -> tuple[StoredFeature, ...]:  # noqa: ANN401
    """The features that a file's columns tell, after every column was held to the contract."""
    types = {field.name: field.type for field in schema}
    problems = [f"the column {name} occurs twice" for name in types if schema.names.count(name) > 1]
    problems += _check_required(types)
    names = [name.removesuffix(_IDX) for name in types if name.endswith(_IDX)]
    features = []
    for name in names:
        problems += _problems(name, types)
        multi = _element_type(types[f"{name}{_IDX}"]) is not None
        valued = f"{name}{_VAL}" in types
        features.append(StoredFeature(name=name, is_multi_hot=multi, use_value=valued))
    declared = set(columns_of(features))
    problems += [
        f"{name} is not a column of the contract" for name in types if name not in declared
    ]
    if not features:
        problems.append("no feature column, <name>_idx")
    if problems:
        suffix = f" and {len(problems) - 6} more" if len(problems) > 6 else ""
        raise SourceError(str(path), "; ".join(problems[:6]) + suffix, _VALIDATE)
    return tuple(features)


def _check_required(types: dict[str, Any]) -> Iterator[str]:
    required = {
        **dict.fromkeys(contract.LABELS, pa.float32()),
        contract.ROW_ID: pa.int64(),
        contract.ENTITY_ID: pa.string(),
    }
    for name, kind in required.items():
        actual = types.get(name)
        if actual is None:
            yield f"no column {name}"
        elif actual != kind and not (
            name == contract.ENTITY_ID and pa.types.is_large_string(actual)
        ):
            yield f"{name} is {_type_name(actual)}, not {_type_name(kind)}"


def _problems(name: str, types: dict[str, Any]) -> Iterator[str]:
    index, value = types[f"{name}{_IDX}"], types.get(f"{name}{_VAL}")
    element = _element_type(index)
    if (index if element is None else element) != pa.int64():
        yield f"{name}{_IDX} is {_type_name(index)}, not int64 or a list of it"
    if value is None:
        return
    if (_element_type(value) is None) != (element is None):
        kinds = f"{name}{_VAL} is {_type_name(value)}, {name}{_IDX} {_type_name(index)}"
        yield f"{kinds}: both must be lists, or neither"
    elif (_element_type(value) or value) != pa.float32():
        yield f"{name}{_VAL} is {_type_name(value)}, not float32 or a list of it"


def _type_name(kind: Any) -> str:  # noqa: ANN401
    return re.sub(r"\bfloat\b", "float32", re.sub(r"\bdouble\b", "float64", str(kind)))


def _element_type(kind: Any) -> Any:  # noqa: ANN401
    return kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
