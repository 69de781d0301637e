"""`ingot monolith stats`: the tables and the JSON."""

import json
import struct
from pathlib import Path

from typer.testing import CliRunner, Result

from ingot.cli.app import app
from ingot.converters.recsys.monolith import write_examples
from ingot.schemas.monolith.example_pb2 import Example
from ingot.schemas.monolith.line_id_pb2 import LineId

GOLDEN = Path(__file__).parents[2] / "golden" / "monolith"
BATCH = GOLDEN / "mono_examplebatch_sortid.pb"


def ran(*arguments: object) -> Result:
    words = ["monolith", "stats", *map(str, arguments)]
    return CliRunner().invoke(app, words, env={"TERM": "dumb"})


def lines(done: Result) -> list[str]:
    assert done.exit_code == 0, done.output
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_public_sample() -> None:
    seen = lines(ran(BATCH))
    assert f"stream {BATCH} (examplebatch, framing sort_id)" in seen
    assert "records 1 of 51 rows" in seen
    assert "sample_rate default 1 (51)" in seen
    assert "unknown in LineId field 11 (51), field 163 (51)" in seen
    assert "uid 0 0 % 51" in seen
    assert "user_id 51 100 %" in seen
    assert "(rows that lack one of uid, req_time, sample_rate) 51" in seen
    assert "f_spm_1 fid_v1_list 100 % 1 1 (301)" in seen
    assert "f_goods_test30_bool fid_v1_list 3.92 % 96.1 % 1 1 (520)" in seen
    assert seen[-1].startswith("never filled: f_user_ctx_client_version, ")
    assert seen[-1].endswith(" and 30 more")


def test_json() -> None:
    told = json.loads(ran(BATCH, "--json").stdout)
    assert (told["rows"], told["records"], len(told["features"])) == (51, 1, 137)
    assert sum(told["slots"]["v1"].values()) == 1_094
    assert told["line_ids"]["lacking"] == {"uid": 51, "req_time": 0, "sample_rate": 51}
    assert told["unknown"]["line_id"] == {"11": 51, "163": 51}


def made() -> list[Example]:
    rows = []
    for number in range(10):
        row = Example(label=[number % 2, -1], instance_weight=0.5, data_source_key=256)
        row.line_id.MergeFrom(LineId(uid=number, req_time=1, sample_rate=0.25))
        row.named_feature.add(name="f").feature.fid_v2_list.value.extend([9 << 48] * number)
        rows.append(row)
    return rows


def test_what_rows_give(tmp_path: Path) -> None:
    write_examples(tmp_path / "it", made(), sort_ids=[b"ab"] * 10)
    seen = lines(ran(tmp_path / "it"))
    assert "records 10 of 1 rows" in seen
    assert "labels 2 a row" in seen
    assert "sort_ids 10 of 2 bytes" in seen
    assert "sample_rate 0.25 (10)" in seen
    assert "instance_weight 0.5 (10)" in seen
    assert "data_source_key 256 (10)" in seen
    assert "slots v2 45 fids in 1 slots: 9 (45)" in seen
    assert "label rows above 0 0 below 0 least mean most" in seen
    assert "0 10 5 5 0 0.5 1" in seen
    assert "1 10 10 -1 -1 -1" in seen
    values = "0 to 9 (mean 4.5, p50 4, p99 9)"
    assert f"f fid_v2_list 90.0 % 10.0 % {values} 1 (9)" in seen


def test_goes_on_over_what_is_bad(tmp_path: Path) -> None:
    message = made()[1].SerializeToString()
    frames = [message, b"", b"\x0a\x05ab", message]
    data = b"".join(struct.pack("<QQ", 0, len(one)) + one for one in frames)
    (tmp_path / "it").write_bytes(data)
    seen = lines(ran(tmp_path / "it", "--from", "example", "--framing", "sort_id"))
    assert "rows 2" in seen
    assert "bad empty (1), message (1); 16 bytes passed over" in seen
    place = 16 + len(message)
    assert f"bad: {tmp_path}/it: record 1, offset {place}: a record is empty" in seen[-2]
    assert seen[-1].startswith(f"bad: {tmp_path}/it: record 2, offset {place + 16}: ")


def test_several_streams(tmp_path: Path) -> None:
    for number in range(5):
        write_examples(tmp_path / f"part-{number}", made())
    seen = lines(ran(tmp_path))
    assert [line for line in seen if line.startswith("and ")] == ["and 2 more"]
    assert "rows 50" in seen


def test_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"")
    done = ran(tmp_path / "it", "--from", "example")
    assert lines(done)[1] == "rows 0"
