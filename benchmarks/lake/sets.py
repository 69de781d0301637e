"""Data sets of known truth: rows of one shape in one format, laid out in files as people do."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import writing
from shapes import TABLES, Record, Row, Shape
from words import Writer

LAYOUTS: Final[dict[str, Callable[[int, int], str]]] = {
    "single": lambda at, of: "data" if of == 1 else f"data-{at}",
    "shards": lambda at, of: f"part-{at:05d}-of-{of:05d}",
    "splits": lambda at, of: ("train", "test", "valid")[at] if at < 3 else f"train-{at}",
    "split_folders": lambda at, of: f"{('train', 'test')[at % 2]}/{at:04d}",
    "hive": lambda at, of: f"dt=2024-01-{at % 28 + 1:02d}/part-{at // 28}",
    "hive_deep": lambda at, of: f"year={2020 + at % 4}/month={at // 4 % 12 + 1}/file-{at}",
    "years": lambda at, of: f"{2015 + at % 9}/export-{at}",
    "data_folder": lambda at, of: f"data/train-{at:05d}-of-{of:05d}",
    "parts": lambda at, of: f"part-{at}/rows",
}
_ENDINGS: Final = {
    "jsonl": ".jsonl",
    "list": ".json",
    "under": ".json",
    "keyed": ".json",
    "csv": ".csv",
    "tsv": ".tsv",
    "semicolon": ".csv",
    "parquet": ".parquet",
    "arrow": ".arrow",
    "arrow_stream": ".arrow",
}
_DELIMITERS: Final = {"csv": ",", "tsv": "\t", "semicolon": ";"}
_TEXTS: Final = {
    "jsonl": lambda rows: writing.json_lines(rows, plain=False),
    "list": writing.json_list,
    "under": lambda rows: writing.json_under(rows, "data"),
    "keyed": writing.json_keyed,
}
CUT_LINE: Final = '{"id": "cut off", "text": "it ends in the mid'


@dataclass(kw_only=True)
class Made:
    """A data set with what is true of it.

    Attributes:
        key: its name here; its name in a lake is the lake's affair.
        place: its folder in the lake.
        files: bytes by name relative to the place: all are the set's.
        kind: `pt`, `sft`, `irrelevant`, `other`, `broken`.
        status: what may become of it, of ingot's statuses; `left out` = it is no set at all.
        rows: how many it has, None = there is no truth about that.
        records: what it says, each as often as it stands there; None = there is no truth.
        beside: files in the place that are no data.
        asks: what a model has to be asked for, equal for sets of one shape; "" = nothing.
        mapping: a mapping that is approved beforehand.
        filtered: rows that the mapping's conditions leave out.
        notes: what is special about it.
    """

    key: str
    place: str
    files: dict[str, bytes]
    kind: str
    status: tuple[str, ...] = ("converted",)
    rows: int | None = None
    records: list[Record] | None = None
    beside: dict[str, bytes] = field(default_factory=dict)
    asks: str = ""
    mapping: dict[str, Any] | None = None
    filtered: int = 0
    notes: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a set is to be.

    Attributes:
        key, place: as of `Made`.
        shape: how a piece lies in a row.
        form: its format, one of the shape's.
        layout: of its files, one of LAYOUTS.
        language: of its texts.
        files: how many.
        rows: in each.
        packing: of the files, "" = none.
        encoding: of text formats.
        blanks, cuts: rows that give no record: without an answer or text, without an end.
        within, across: records that are repeated from the same set and from earlier ones.
    """

    key: str
    place: str
    shape: Shape
    form: str
    layout: str = "single"
    language: str = "en"
    files: int = 1
    rows: int = 20
    packing: str = ""
    encoding: str = "utf-8"
    blanks: int = 0
    cuts: int = 0
    within: int = 0
    across: int = 0


class Maker:
    """Makes sets by plans; remembers pieces so that later sets can repeat them."""

    def __init__(self, write: Writer) -> None:
        self.write = write
        self._pool: dict[tuple[Any, str], list[Any]] = {}

    def make(self, plan: Plan) -> Made:
        """The set with its truth."""
        both = list(self._rows(plan))
        rows = [row for row, _ in both]
        ending = _ENDINGS[plan.form] + (f".{plan.packing}" if plan.packing else "")
        parts = _dealt(rows, plan.files)
        names = [LAYOUTS[plan.layout](at, plan.files) + ending for at in range(plan.files)]
        return Made(
            key=plan.key,
            place=plan.place,
            files={n: _file(part, plan) for n, part in zip(names, parts, strict=True)},
            kind=plan.shape.kind,
            rows=len(rows),
            records=[record for _, record in both if record is not None],
            notes=f"{plan.shape.name} {plan.form} {plan.layout} {plan.language} {plan.encoding}",
        )

    def _rows(self, plan: Plan) -> Iterator[tuple[Any, Record | None]]:
        chance, shape, count = self.write.chance, plan.shape, plan.rows * plan.files
        pieces = [*self._repeats(plan)]
        fresh = [shape.make(self.write, plan.language) for _ in range(count - len(pieces))]
        self._pool.setdefault((shape.make, plan.language), []).extend(fresh)
        pieces += fresh[: plan.within] + fresh[: max(0, len(fresh) - plan.within)]
        chance.shuffle(pieces)
        bad = chance.sample(range(1, count), plan.blanks + plan.cuts)
        for number, piece in enumerate(pieces[:count]):
            row, record = shape.lay(piece, number, plan.language)
            if number in bad[: plan.blanks]:
                yield {**row, shape.blank: ""}, None
            elif number in bad:
                yield CUT_LINE, None
            else:
                yield row, record

    def _repeats(self, plan: Plan) -> Sequence[Any]:
        pool = self._pool.get((plan.shape.make, plan.language), [])
        return self.write.chance.sample(pool, min(plan.across, len(pool)))


def _dealt(rows: Sequence[Any], files: int) -> list[Sequence[Any]]:
    each = len(rows) // files
    return [rows[at * each : (at + 1) * each] for at in range(files)]


def _file(rows: Sequence[Row], plan: Plan) -> bytes:
    if plan.form in TABLES:
        text = writing.table(rows, delimiter=_DELIMITERS[plan.form])
    elif plan.form == "parquet":
        return writing.parquet(rows)
    elif plan.form.startswith("arrow"):
        return writing.arrow(rows, stream=plan.form == "arrow_stream")
    else:
        text = _TEXTS[plan.form](rows)
    return writing.packed(text.encode(plan.encoding), plan.packing)
