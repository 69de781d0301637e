"""The summary of planted messages."""

import orjson
import pytest

from ingot.converters.megatron.metrics.messages import MessageTotals
from ingot.converters.megatron.metrics.summary import BuildMeasures, summarize_build


def totals() -> MessageTotals:
    sums = MessageTotals(10.0)
    sums.take({"kind": "phase", "phase": "read"}, 20.0)
    amounts = {"bytes_read": 200_000_000, "text_bytes": 600_000_000, "tokens": 150_000_000}
    others = {"records": 100, "documents": 90, "failed_records": 4, "filtered": 6, "files": 3}
    sums.take({"kind": "count", **amounts, **others, "failed_files": 1, "error.bad_utf8": 4}, 21.0)
    for stage, seconds in (("reader", 1), ("preprocess", 1.0), ("tokenize", 6), ("write", 2)):
        sums.take({"kind": "stage", "stage": stage, "seconds": seconds}, 22.0)
    for ms in range(1, 101):
        sums.take({"kind": "batch", "ms": ms}, 23.0)
    sums.take({"kind": "phase", "phase": "merge"}, 25.0)
    sums.take({"kind": "phase", "phase": "done"}, 29.0)
    return sums


def test_amounts_rates_and_shares() -> None:
    measured = BuildMeasures(engine="gigatoken", disk_mbps=1000.0)
    summary = summarize_build(totals(), 30.0, measured, peak=77, lost=2)
    assert summary.wall_seconds == 20
    assert summary.phases == {"start": 10, "read": 5, "merge": 4}
    assert (summary.files, summary.failed_files) == (3, 1)
    assert (summary.records, summary.documents, summary.rejected, summary.filtered) == (
        100,
        90,
        4,
        6,
    )
    assert (summary.bytes_read, summary.text_bytes) == (200_000_000, 600_000_000)
    assert summary.errors == {"bad_utf8": 4}
    assert summary.speed.read_mbps == pytest.approx(10)
    assert summary.speed.text_mbps == pytest.approx(30)
    assert summary.speed.tokens_per_sec == pytest.approx(7_500_000)
    assert summary.speed.disk_share == pytest.approx(0.04)  # 40 MB/s while it read
    assert [(one.stage, one.share) for one in summary.stages] == [
        ("reader", 0.1),
        ("preprocess", 0.1),
        ("tokenize", 0.6),
        ("write", 0.2),
        ("index", 0.0),
    ]
    assert summary.latency_ms == {
        "p50": pytest.approx(50, rel=0.01),
        "p90": pytest.approx(90, rel=0.01),
        "p99": pytest.approx(99, rel=0.01),
    }
    assert (summary.peak_rss_bytes, summary.engine, summary.log_lines_lost) == (77, "gigatoken", 2)


def test_as_a_document() -> None:
    document = summarize_build(
        totals(), 30.0, BuildMeasures(engine="hf"), peak=1, lost=0
    ).to_document()
    assert orjson.loads(orjson.dumps(document)) == document
    assert document["speed"]["disk_share"] is None
    assert document["stages"][2] == {"stage": "tokenize", "seconds": 6.0, "share": 0.6}


def test_a_build_that_did_nothing() -> None:
    summary = summarize_build(
        MessageTotals(5.0), 5.0, BuildMeasures(disk_mbps=10.0), peak=0, lost=0
    )
    assert summary.tokens == summary.speed.tokens_per_sec == summary.speed.disk_share == 0
    assert {one.share for one in summary.stages} == {0.0}
    assert set(summary.latency_ms.values()) == {None}
