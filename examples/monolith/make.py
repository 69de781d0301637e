"""Makes the files of this folder again, with the same content.

    python examples/monolith/make.py [OUT]

The front page of an invented news site as Monolith's training data: `feed.pb` holds ExampleBatches,
one for each request, with what was shown to one reader; `clicks.parquet` is a log of the same site
as a warehouse has it, and `clicks.yaml` (written by hand) says what its columns are. What is odd on
purpose is told in README.md.
"""

import random
import struct
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingot.converters.recsys.monolith import fid
from ingot.schemas.monolith.example_pb2 import SHARED, ExampleBatch, NamedFeatureList
from ingot.schemas.monolith.line_id_pb2 import LineId

HERE = Path(__file__).resolve().parent
REQUESTS = 24
LOG_ROWS = 400
FIRST = 1_767_225_600  # 2026-01-01 00:00:00 UTC
SLOTS = {"reader": 1, "article": 2, "section": 3, "tags": 4, "city": 5, "reader-section": 101}
SECTIONS = ("town", "sport", "weather", "books", "market")
CITIES = ("Lindau", "Wangen", "Isny", None)
TAGS = ("mayor", "bridge", "football", "rain", "poem", "price", "school", "train")


def v1(name: str, *values: object) -> list[int]:
    """Fids of a feature's slot, by hash."""
    texts = [str(value) for value in values]
    return [int(one) for one in fid.from_values(SLOTS[name], texts, "v1", "xxh64")]


def shown(dice: random.Random) -> list[dict[str, Any]]:
    """The articles of one request: what they are, and what the reader did."""
    made = []
    for place in range(dice.randrange(4, 17)):
        article = int(300 * dice.random() ** 2)
        section = SECTIONS[article % len(SECTIONS)]
        liking = 0.35 if section in ("sport", "books") else 0.08
        click = dice.random() < liking
        tags = dice.sample(TAGS, dice.randrange(4))
        made.append(
            {"article": article, "section": section, "tags": tags, "place": place, "click": click}
        )
    return made


def add(batch: ExampleBatch, name: str) -> NamedFeatureList:
    """An empty list of a batch."""
    return batch.named_feature_list.add(name=name)


def request(number: int, dice: random.Random) -> ExampleBatch:
    """What was shown in one request, as a batch."""
    reader, articles = dice.randrange(40), shown(dice)
    batch = ExampleBatch(batch_size=len(articles))
    fill_reader(batch, reader, dice.choice(CITIES))
    fill_articles(batch, reader, articles)
    lines, labels = add(batch, "__LINE_ID__"), add(batch, "__LABEL__")
    for one in articles:
        line = line_id(number, reader, one, dice)
        lines.feature.add().bytes_list.value.append(line.SerializeToString())
        labels.feature.add().float_list.value.extend(
            [one["click"], one["click"] and one["place"] < 3]
        )
    return batch


def fill_reader(batch: ExampleBatch, reader: int, city: str | None) -> None:
    """What all rows share."""
    named = batch.named_feature_list.add(name="f_reader", type=SHARED)
    named.feature.add().fid_v1_list.value.extend(v1("reader", reader))
    named = batch.named_feature_list.add(name="f_city", type=SHARED)
    feature = named.feature.add()
    if city:
        feature.fid_v1_list.value.extend(v1("city", city))


def fill_articles(batch: ExampleBatch, reader: int, articles: list[dict[str, Any]]) -> None:
    """What each row has for itself."""
    names = ("f_article", "f_section", "f_tags", "f_reader-section", "place", "lengths")
    lists = {name: add(batch, name) for name in names}
    for one in articles:
        lists["f_article"].feature.add().fid_v1_list.value.extend(v1("article", one["article"]))
        lists["f_section"].feature.add().fid_v1_list.value.extend(v1("section", one["section"]))
        tags = lists["f_tags"].feature.add()
        if one["tags"]:
            tags.fid_v1_list.value.extend(v1("tags", *one["tags"]))
        crossed = v1("reader-section", f"{reader} {one['section']}")
        lists["f_reader-section"].feature.add().fid_v1_list.value.extend(crossed)
        lists["place"].feature.add().float_list.value.append(1 / (1 + one["place"]))
        lengths = lists["lengths"].feature.add().int64_lists
        for words in (80 + one["article"] % 400, 20):
            lengths.list.add(value=[words, words // 9])


def line_id(number: int, reader: int, one: dict[str, Any], dice: random.Random) -> LineId:
    """Who saw it when; field 163 is one that the public message has no name for."""
    line = LineId(uid=reader, req_time=FIRST + 61 * number, item_id=one["article"])
    line.req_id = f"r{number:04}"
    line.actions.append(int(one["click"]))
    if dice.random() < 0.95:
        line.sample_rate = 1.0 if one["click"] else 0.2
    line.MergeFromString(b"\x9a\x0a\x05front")
    return line


def feed() -> bytes:
    """All requests, framed as Monolith reads them by default; one of them is wrong."""
    dice = random.Random(20)
    batches = [request(number, dice) for number in range(REQUESTS)]
    batches[17].batch_size += 1  # README.md tells it
    messages = [one.SerializeToString(deterministic=True) for one in batches]
    return b"".join(struct.pack("<QQ", 0, len(one)) + one for one in messages)


def log() -> pa.Table:
    """Clicks as a warehouse has them: names, texts, numbers, nothing of Monolith's."""
    dice = random.Random(21)
    rows = [one for number in range(LOG_ROWS) for one in shown(dice)[:1]]
    readers = [dice.randrange(40) for _ in rows]
    return pa.table(
        {
            "reader": pa.array([f"reader-{one}" for one in readers]),
            "article": pa.array([one["article"] for one in rows], pa.int64()),
            "section": pa.array([one["section"] for one in rows]).dictionary_encode(),
            "tags": pa.array([one["tags"] or None for one in rows], pa.list_(pa.string())),
            "minutes": pa.array([round(4 * dice.random(), 2) for _ in rows], pa.float64()),
            "clicked": pa.array([int(one["click"]) for one in rows], pa.int8()),
            "liked": pa.array([int(dice.random() < 0.1) for _ in rows], pa.int8()),
            "reader_number": pa.array(readers, pa.int64()),
            "seconds": pa.array([FIRST + 7 * number for number in range(LOG_ROWS)], pa.int64()),
            "page": pa.array(["front"] * LOG_ROWS),
        }
    )


if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    out.mkdir(parents=True, exist_ok=True)
    (out / "feed.pb").write_bytes(feed())
    pq.write_table(log(), out / "clicks.parquet", compression="zstd")
