"""Violations of every rule of the contract, and how each is planted into a right folder."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.converters.recsys.ctr.right import TRAIN, VALID, split_of


def rewrite(path: Path, change: Callable[[dict[str, list[Any]]], None]) -> None:
    """Changes cells of a Parquet file; null is allowed, the metadata stays."""
    table = pq.read_table(path)
    columns = table.to_pydict()
    change(columns)
    fields = [pa.field(one.name, loose(one.type)) for one in table.schema]
    schema = pa.schema(fields, metadata=table.schema.metadata)
    pq.write_table(pa.table(columns, schema=schema), path, row_group_size=8)


def loose(kind: pa.DataType) -> pa.DataType:
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def cell(column: str, row: int, value: object, file: str = TRAIN) -> Callable[[Path], None]:
    def change(columns: dict[str, list[Any]]) -> None:
        old = columns[column][row]
        columns[column][row] = value(old) if callable(value) else value

    return lambda root: rewrite(root / file, change)


def cells(row: int, file: str = TRAIN, **values: object) -> Callable[[Path], None]:
    return lambda root: [cell(name, row, new, file)(root) for name, new in values.items()] and None


def columns(change: Callable[[pa.Table], pa.Table], file: str = TRAIN) -> Callable[[Path], None]:
    def plant(root: Path) -> None:
        pq.write_table(change(pq.read_table(root / file)), root / file)

    return plant


def cast(name: str, kind: pa.DataType) -> Callable[[Path], None]:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.names.index(name)
        return table.set_column(at, pa.field(name, kind), table[name].cast(kind))

    return columns(change)


def listed(name: str) -> Callable[[Path], None]:
    """A column of scalars as one of lists."""

    def change(table: pa.Table) -> pa.Table:
        at = table.schema.names.index(name)
        return table.set_column(at, name, pa.array([[one] for one in table[name].to_pylist()]))

    return columns(change)


def document(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def plant(root: Path) -> None:
        told = json.loads((root / name).read_bytes())
        change(told)
        (root / name).write_text(json.dumps(told), encoding="utf-8")

    return plant


def vocabulary(name: str, change: Callable[[dict[str, list[Any]]], None]) -> Callable[[Path], None]:
    return lambda root: rewrite(root / f"vocab/{name}.parquet", change)


def swapped(told: dict[str, list[Any]]) -> None:
    for column in told.values():
        column[0], column[1] = column[1], column[0]


def without_metadata(root: Path) -> None:
    columns(lambda table: table.replace_schema_metadata(None), VALID)(root)


def with_profile(text: str) -> Callable[[Path], None]:
    return columns(lambda table: table.replace_schema_metadata({"ingot.ctr": text}))


def cut(root: Path) -> None:
    """Zeroes in the pages of the second row group: the footer stays whole."""
    path = root / TRAIN
    group = pq.read_metadata(path).row_group(1)
    start = min(
        group.column(i).dictionary_page_offset or group.column(i).data_page_offset
        for i in range(group.num_columns)
    )
    content = bytearray(path.read_bytes())
    content[start : start + group.total_byte_size // 2] = bytes(group.total_byte_size // 2)
    path.write_bytes(content)


def moved_entity(root: Path) -> None:
    """An entity of valid in a row of train."""
    entity = pq.read_table(root / VALID)["entity_id"][0].as_py()
    cell("entity_id", 4, entity)(root)


def other_entity(root: Path) -> None:
    """A new entity in the split that is not its own."""
    strangers = (f"s{i}" for i in range(99))
    cell("entity_id", 4, next(one for one in strangers if split_of(one) == "valid"))(root)


def repeated_row_id(root: Path) -> None:
    number = pq.read_table(root / TRAIN)["row_id"][-1].as_py()
    cell("row_id", -1, number, VALID)(root)


@dataclass(frozen=True)
class Planted:
    """A violation.

    Attributes:
        rule: that it breaks.
        plant: does it to a right folder.
        file, row, column, found: the first place that is told.
        follows: further rules that cannot but be broken too.
        choices: of the featuremap.
    """

    rule: str
    plant: Callable[[Path], object]
    file: str
    row: int | None
    column: str | None
    found: str
    follows: tuple[str, ...]
    choices: dict[str, str] | None


def case(
    rule: str, plant: Callable[[Path], object], at: str, found: str, *follows: str, **choices: str
) -> Planted:
    """A violation; `at` is file, row and column, `-` for none, train and valid for their files."""
    file, row, column = [*at.split(), "-", "-"][:3]
    return Planted(
        rule=rule,
        plant=plant,
        file={"train": TRAIN, "valid": VALID}.get(file, file),
        row=None if row == "-" else int(row),
        column=None if column == "-" else column,
        found=found,
        follows=follows,
        choices=choices or None,
    )


def violations() -> list[Planted]:
    far = 10**6
    listless = "list<int64>"
    return [
        case("R0.1", lambda r: shutil.rmtree(r / "valid"), "valid/", "no such folder", "R7.4"),
        case("R0.1", lambda r: (r / VALID).unlink(), "valid/", "no Parquet file", "R7.4"),
        case(
            "R0.2", lambda r: (r / TRAIN).write_bytes(b"PAR1 no"), "train", "cannot be read", "R7.4"
        ),
        case("R0.2", cut, "train 0 -", "from here on it cannot be read", "R7.4"),
        case(
            "R0.3",
            columns(lambda t: t.append_column("f1_5_offset", t["row_id"])),
            "train - f1_5_offset",
            "not declared",
        ),
        case(
            "R0.3",
            columns(lambda t: t.append_column("y_ctr", t["y_ctr"])),
            "train - y_ctr",
            "2 columns",
            "R7.4",
        ),
        case(
            "R1.1",
            columns(lambda t: t.drop_columns("click_mask")),
            "train - click_mask",
            "no such column",
            "R7.4",
        ),
        case("R1.2", cast("y_ctr", pa.int8()), "train - y_ctr", "int8, not float32"),
        case("R1.2", cast("y_cvr", pa.float64()), "train - y_cvr", "float64, not float32"),
        case("R1.3", cast("row_id", pa.int32()), "train - row_id", "int32, not int64"),
        case("R1.3", cast("entity_id", pa.binary()), "train - entity_id", "binary", "R7.4"),
        case("R1.4", cell("y_ctr", 2, 0.5), "train 2 y_ctr", "0.5"),
        case("R1.4", cell("click_mask", 2, float("nan")), "train 2 click_mask", "nan"),
        case(
            "R1.5", cell("y_ctcvr", 3, lambda old: 1 - old), "train 3 y_ctcvr", "at y_ctr", "R7.4"
        ),
        case(
            "R1.6",
            cell("click_mask", 3, lambda old: 1 - old),
            "train 3 click_mask",
            "the profile is clicked",
            "R7.4",
        ),
        case(
            "R1.6",
            cell("click_mask", 3, 0.0),
            "train 3 click_mask",
            "the profile is exposed",
            "R7.4",
            click_mask="exposed",
        ),
        case(
            "R1.7",
            cells(0, VALID, y_ctr=0.0, y_cvr=1.0, y_ctcvr=0.0, click_mask=0.0),
            "valid 0 y_cvr",
            "says drop",
            "R7.4",
            funnel="drop",
        ),
        case(
            "R1.7",
            cells(1, VALID, y_ctr=0.0, y_cvr=1.0, y_ctcvr=0.0, click_mask=0.0),
            "valid 1 y_cvr",
            "says coerce",
            "R7.4",
            funnel="coerce",
        ),
        case("R1.8", repeated_row_id, "valid - row_id", f", as in {TRAIN} row"),
        case("R1.9", cell("row_id", 0, -5), "train 0 row_id", "-5 after -1"),
        case("R1.9", cell("row_id", 3, far), "train 4 row_id", f"after {far}"),
        case("R1.10", moved_entity, "valid 0 entity_id", "also in train", "R1.11", "R7.4"),
        case("R1.11", other_entity, "train 4 entity_id", "s", "R7.4"),
        case(
            "R2.1",
            columns(lambda t: t.drop_columns("f0_3_idx")),
            "train - f0_3_idx",
            "no such column",
            "R7.4",
        ),
        case(
            "R2.2",
            columns(lambda t: t.drop_columns("f1_5_val")),
            "train - f1_5_val",
            "no such column",
        ),
        case(
            "R2.3",
            columns(lambda t: t.append_column("f1_6_val", t["f1_5_val"])),
            "train - f1_6_val",
            "use_value: false",
        ),
        case("R2.4", listed("f0_1_idx"), "train - f0_1_idx", f"{listless}, not int64", "R7.4"),
        case(
            "R2.4",
            columns(
                lambda t: t.set_column(t.schema.names.index("f1_6_idx"), "f1_6_idx", t["row_id"])
            ),
            "train - f1_6_idx",
            f"int64, not {listless}",
            "R7.4",
        ),
        case("R2.5", cast("f0_1_idx", pa.int32()), "train - f0_1_idx", "int32, not int64"),
        case(
            "R2.5",
            cast("f1_5_val", pa.list_(pa.float64())),
            "train - f1_5_val",
            "list<float64>, not list<float32>",
        ),
        case(
            "R2.6",
            cell("f1_6_idx", 5, [9, 8, 7, 6]),
            "train 5 f1_6_idx",
            "4 elements, max_len 3",
            "R7.4",
        ),
        case("R2.7", cell("f1_5_val", 5, [1.0] * 9), "train 5 f1_5_val", "9 values"),
        case("R3.1", cells(5, f1_6_idx=[]), "train 5 f1_6_idx", "[]", "R7.4"),
        case("R3.2", cell("f1_6_idx", 5, [7, 1]), "train 5 f1_6_idx", "1 at [1]", "R7.4"),
        case(
            "R3.3",
            cells(2, f0_2_idx=1, f0_2_val=0.5),
            "train 2 f0_2_val",
            "0.5 beside the missing id",
            "R7.4",
        ),
        case(
            "R3.3",
            cells(5, f1_5_idx=[1], f1_5_val=[0.5]),
            "train 5 f1_5_val",
            "0.5 at [0]",
        ),
        case("R3.4", cell("f0_3_idx", 5, 0), "train 5 f0_3_idx", "0"),
        case("R3.4", cell("f1_6_idx", 5, [9, 0]), "train 5 f1_6_idx", "0 at [1]"),
        case("R3.5", cell("f0_3_idx", 5, 18), "train 5 f0_3_idx", "18, ids are below 18"),
        case("R3.5", cell("f0_1_idx", 5, -1), "train 5 f0_1_idx", "-1, ids are below 8"),
        case("R3.5", cell("f0_4_idx", 5, 14), "train 5 f0_4_idx", "14, ids are below 14"),
        case(
            "R3.5",
            cell("f0_4_idx", 5, 10),
            "train 5 f0_4_idx",
            "10, ids are below 10",
            tail_ids="contract",
        ),
        case(
            "R3.6",
            cell("f0_4_idx", 5, 2),
            "train 5 f0_4_idx",
            "2, which stands for nothing",
            "R7.4",
        ),
        case("R3.7", cell("f0_2_val", 5, float("inf")), "train 5 f0_2_val", "inf"),
        case(
            "R3.7",
            cells(5, f1_5_idx=[4], f1_5_val=[float("nan")]),
            "train 5 f1_5_val",
            "nan at [0]",
            "R7.4",
        ),
        case(
            "R3.8",
            cells(5, f1_5_idx=[5, 4, 5], f1_5_val=[1.0] * 3),
            "train 5 f1_5_idx",
            "5 at [2], as before",
            "R7.4",
        ),
        case("R3.9", cell("f0_1_idx", 5, 6), "train 5 f0_1_idx", "6, the vocabulary ends at 5"),
        case("R5.1", cell("entity_id", 5, None), "train 5 entity_id", "null"),
        case("R5.1", cell("y_cvr", 1, None), "train 1 y_cvr", "null"),
        case("R5.1", cell("f0_3_idx", 5, None), "train 5 f0_3_idx", "null", "R7.4"),
        case("R5.1", cells(5, f1_5_idx=None, f1_5_val=None), "train 5 f1_5_idx", "null", "R7.4"),
        case(
            "R5.1",
            cells(5, f1_5_idx=[5, None], f1_5_val=[None, 1.0]),
            "train 5 f1_5_idx",
            "null at [1]",
            "R7.4",
        ),
        case("R7.1", lambda r: (r / "featuremap.yaml").unlink(), "featuremap.yaml", "no such file"),
        case(
            "R7.1",
            lambda r: (r / "featuremap.yaml").write_text("features: []"),
            "featuremap.yaml",
            "/features",
        ),
        case("R7.2", without_metadata, "valid", "no metadata ingot.ctr"),
        case(
            "R7.2",
            with_profile('{"funnel": "drop"}'),
            "train",
            "funnel: drop, the featuremap says keep",
            "R1.7",
        ),
        case("R7.2", with_profile('{"click_mask": "seen"}'), "train", "click_mask: seen"),
        case("R7.2", with_profile('{"schema_version": 3}'), "train", "schema_version: 3"),
        case("R7.2", with_profile("[]"), "train", "no profile: []"),
        case(
            "R7.3",
            lambda r: (r / "vocab/f0_3.parquet").unlink(),
            "vocab/f0_3.parquet",
            "no such file",
        ),
        case(
            "R7.3",
            vocabulary("f0_3", lambda t: t["token"].__setitem__(1, None)),
            "vocab/f0_3.parquet 1 token",
            "null",
        ),
        case(
            "R7.3",
            vocabulary("f1_6", lambda t: t["count"].__setitem__(11, 0)),
            "vocab/f1_6.parquet 11 count",
            "0, at least 1",
        ),
        case(
            "R7.3",
            vocabulary("f1_6", lambda t: t["id"].__setitem__(7, 5)),
            "vocab/f1_6.parquet 7 id",
            "5, not ",
        ),
        case("R7.3", vocabulary("f0_2", swapped), "vocab/f0_2.parquet 1 token", "out of order"),
        case(
            "R7.3",
            vocabulary("f0_1", lambda t: t["token"].__setitem__(2, t["token"][0])),
            "vocab/f0_1.parquet 2 token",
            "twice",
        ),
        case(
            "R7.3",
            columns(lambda t: t.drop_columns("id"), "vocab/f0_3.parquet"),
            "vocab/f0_3.parquet",
            "columns token string, count int64, not token",
        ),
        case("R7.4", lambda r: (r / "stats.json").unlink(), "stats.json", "no such file"),
        case(
            "R7.4",
            lambda r: (r / "stats.json").write_text("[" * 99999),
            "stats.json",
            "cannot be read",
        ),
        case(
            "R7.4",
            document("stats.json", lambda s: s["rows"].update(read=7)),
            "stats.json",
            "rows.read: 7, train + valid + rejected + dropped are 62",
        ),
        case(
            "R7.4",
            document("stats.json", lambda s: s["splits"]["valid"].update(y_ctr=True)),
            "stats.json",
            "splits.valid.y_ctr: true, the files have",
        ),
        case(
            "R7.4",
            document("stats.json", lambda s: s["vocab"]["f0_1"].update(kept=4)),
            "stats.json",
            "vocab.f0_1.kept: 4, the files have 3",
        ),
        case(
            "R7.4",
            document("stats.json", lambda s: s["splits"]["train"]["features"].clear()),
            "stats.json",
            "splits.train.features.f0_1.missing: null",
        ),
        case(
            "R7.4",
            lambda r: (r / "rejects.jsonl").write_text("{}\n"),
            "rejects.jsonl",
            "1 lines, stats.json has 2 rejects",
        ),
        case("R7.5", lambda r: (r / "manifest.json").unlink(), "manifest.json", "no such file"),
        case(
            "R7.5",
            document("manifest.json", lambda m: m["files"].pop()),
            "vocab/f1_7.parquet",
            "does not list it",
        ),
        case(
            "R7.5",
            document("manifest.json", lambda m: m["files"][0].update(sha256="0")),
            "featuremap.yaml",
            "another SHA-256",
        ),
        case(
            "R7.5",
            document("manifest.json", lambda m: m["files"][0].update(bytes=1)),
            "featuremap.yaml",
            "manifest.json says 1",
        ),
        case(
            "R7.5",
            document("manifest.json", lambda m: m["files"].append({"path": "../x"})),
            "manifest.json",
            "no file of the folder",
        ),
        case(
            "R7.5",
            document("manifest.json", lambda m: m["files"].append({"path": "gone"})),
            "gone",
            "cannot be read",
        ),
    ]
