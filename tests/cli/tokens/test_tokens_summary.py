"""The summary of planted messages, and what a disk gives by itself."""

from typing import Any

import orjson
import pytest

from ingot.cli.tokens.display import BuildMeasures, measure_sequential_mbps, summarize_build
from ingot.converters import progress
from ingot.converters.megatron.messages import BuildMeter


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> BuildMeter:
    """A build of 20 seconds on a clock of the test's."""
    now = [10.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    meter = BuildMeter(lambda _: None)

    def tell(at: float, **message: Any) -> None:
        now[0] = at
        meter(message)

    tell(20.0, kind="phase", phase="read")
    amounts = {"bytes_read": 200_000_000, "text_bytes": 600_000_000, "tokens": 150_000_000}
    others = {"records": 100, "documents": 90, "failed_records": 4, "filtered": 6, "files": 3}
    tell(21.0, kind="count", **amounts, **others, failed_files=1, read_errors=4)
    for stage, seconds in (("reader", 1), ("preprocess", 1.0), ("tokenize", 6), ("write", 2)):
        tell(22.0, kind="count", **{f"{stage}_seconds": seconds})
    for ms in range(1, 101):
        tell(23.0, kind="batch", ms=ms, queue_depth_reader=0, queue_depth_tok=0)
    tell(25.0, kind="phase", phase="merge")
    tell(29.0, kind="phase", phase="done")
    return meter


def test_amounts_rates_and_shares(meter: BuildMeter) -> None:
    machine: dict[str, Any] = {"disk_mbps": 1000.0, "peak_rss_bytes": 77, "log_lines_lost": 2}
    measured = BuildMeasures(wall_seconds=20, engine="gigatoken", **machine)
    summary = summarize_build(meter, measured)
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
    assert summary.errors == {"read": 4}
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


def test_as_a_document(meter: BuildMeter) -> None:
    document = summarize_build(meter, BuildMeasures(wall_seconds=20, engine="hf")).to_document()
    assert orjson.loads(orjson.dumps(document)) == document
    assert document["speed"]["disk_share"] is None
    assert document["stages"][2] == {"stage": "tokenize", "seconds": 6.0, "share": 0.6}


def test_a_build_that_did_nothing() -> None:
    nothing = BuildMeter(lambda _: None)
    summary = summarize_build(nothing, BuildMeasures(wall_seconds=0, disk_mbps=10.0))
    assert summary.tokens == summary.speed.tokens_per_sec == summary.speed.disk_share == 0
    assert {one.share for one in summary.stages} == {0.0}
    assert set(summary.latency_ms.values()) == {None}


def test_a_rate_of_real_files(tmp_path):
    files = [tmp_path / name for name in "ab"]
    for file in files:
        file.write_bytes(bytes(1 << 20))
    rate = measure_sequential_mbps(files, least=1 << 21)
    assert rate is not None
    assert rate > 0


def test_too_little_says_nothing(tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    assert measure_sequential_mbps([tmp_path / "a"]) is None
    assert measure_sequential_mbps([], least=0) is None


def test_a_file_that_is_gone_says_nothing(tmp_path):
    assert measure_sequential_mbps([tmp_path / "gone"]) is None
