"""What the Criteo benchmark and other tests compare with: the reference outputs and torchrec."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.more

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "criteo"
DAYS = [GOLDEN / f"day_{day}" for day in range(3)]
VERSIONS = {"nov2022": "ln3", "now": "min2"}


def same_bits(made: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal, NaNs bit by bit."""
    assert made.shape == wanted.shape
    if wanted.dtype == np.float32:
        return bool((made.view(np.uint32) == wanted.view(np.uint32)).all())
    # Ids past 2^31 wrap in the older reference, before they become ids.
    return bool((made.astype(np.int32) == wanted.astype(np.int32)).all())


def differing(run, golden) -> list[str]:
    arrays = {name.removesuffix(".npy"): array for name, array in run.arrays()}
    return [name for name in golden.files if not same_bits(arrays[name], golden[name])]


@pytest.mark.parametrize("version", VERSIONS)
def test_raw_values_labels_and_logarithms_are_the_golden_ones(reference, version):
    parts = [reference.read(path, VERSIONS[version]) for path in DAYS]
    run = reference.Run(parts=parts, known=[])
    assert differing(run, np.load(GOLDEN / f"torchrec_{version}_step1.npz")) == []
    assert all(not part.rejects for part in parts)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("threshold", [0, 3])
def test_ids_are_the_golden_ones(reference, version, threshold):
    run = reference.preprocess(DAYS, frequency_threshold=threshold, shuffle_seed=None)
    golden = np.load(GOLDEN / f"torchrec_{version}_contig{threshold}.npz")
    assert differing(run, golden) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("compat", ["exact", "torchrec_f32"])
def test_shuffled_days_are_the_golden_ones(reference, version, compat):
    run = reference.preprocess(DAYS, dense=VERSIONS[version], compat=compat)
    assert differing(run, np.load(GOLDEN / f"torchrec_{version}_shuffled.npz")) == []


def big_ids(reference, golden) -> list:
    return [
        reference.Part(
            name=f"day_{day}",
            lines=40,
            rejects=[],
            **{kind: golden[f"in_day_{day}_{kind}"] for kind in ("labels", "dense", "sparse")},
        )
        for day in range(3)
    ]


@pytest.mark.parametrize("compat", ["exact", "torchrec_f32"])
def test_large_ids_stay_or_are_rounded(reference, compat):
    golden = np.load(GOLDEN / "shuffle_big_ids.npz")
    parts = big_ids(reference, golden)
    reference.shuffle(parts, 0, compat)
    for day, part in enumerate(parts):
        wanted = golden[f"out_day_{day}_sparse"]
        assert same_bits(part.dense, golden[f"out_day_{day}_dense"])
        if compat == "torchrec_f32" or day == 2:
            assert same_bits(part.sparse, wanted)
        else:
            assert not same_bits(part.sparse, wanted)
            assert same_bits(part.sparse.astype(np.float32).astype(np.int32), wanted)


@pytest.mark.parametrize("threshold", ["0", "4"])
def test_torchrec_itself_gives_the_same(generator, tmp_path, threshold):
    generator.main([str(tmp_path / "raw"), "--rows", "2001", "--days", "3", "--crlf"])
    folder = Path(generator.__file__).parent
    options = ["--frequency-threshold", threshold, "--shuffle-seed", "11"]
    for name, more in (
        ("torchrec_peer", []),
        ("reference", ["--dense", "min2", "--compat", "torchrec_f32"]),
    ):
        argv = [sys.executable, folder / f"{name}.py", tmp_path / "raw", tmp_path / name]
        subprocess.run([*argv, *options, *more], check=True, capture_output=True)
    names = [path.name for path in sorted((tmp_path / "reference").iterdir())]
    assert len(names) == 9
    for name in names:
        made, wanted = (np.load(tmp_path / way / name) for way in ("reference", "torchrec_peer"))
        assert same_bits(made, wanted), name


ROW = [b"1", *(b"%d" % k for k in range(13)), *(b"%x" % (k + 9) for k in range(26))]


def line(**changed: bytes) -> bytes:
    """A line with some fields changed: f0 is the label."""
    fields = ROW.copy()
    for name, text in changed.items():
        fields[int(name[1:])] = text
    return b"\t".join(fields)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "columns"),
        (b"\t".join(ROW[:-1]), "columns"),
        (b"\t".join([*ROW, b""]), "columns"),
        (line(f0=b"yes"), "label"),
        (line(f0=b"1.0", f3=b"x", f30=b"x"), "label"),
        (line(f3=b"+1"), "dense"),
        (line(f3=b" 1"), "dense"),
        (line(f3=b"-"), "dense"),
        (line(f3=b"2147483648"), "dense"),
        (line(f3=b"1_0", f30=b"x"), "dense"),
        (line(f30=b"0x1"), "sparse"),
        (line(f39=b"1\r"), "sparse"),
        (line(f30=b"100000000"), "sparse"),
        (line(f30="１".encode()), "sparse"),
    ],
)
def test_a_line_that_is_no_row_has_a_reason(reference, text, reason):
    with pytest.raises(reference.WrongLineError, match=reason):
        reference.row(text, labelled=True)


def test_what_only_looks_wrong_is_a_row(reference):
    text = line(f0=b"", f1=b"-2147483648", f2=b"007", f14=b"", f15=b"0000000000Ff")
    label, dense, sparse = reference.row(text, labelled=True)
    assert (label, dense[:2], sparse[:2]) == (0, [-(2**31), 7], [0, 255])
    assert reference.row(line()[2:], labelled=False)[0] == -1


def test_rejects_are_numbered_by_line_and_rows_move_up(reference, tmp_path):
    path = tmp_path / "day_0"
    path.write_bytes(b"\r\n".join([line(), b"short", line(f0=b"7"), line(f3=b"x"), line(f0=b"9")]))
    part = reference.read(path, "ln3")
    assert part.rejects == [(2, "columns"), (4, "dense")]
    assert (part.lines, part.labels.ravel().tolist()) == (5, [1, 7, 9])


def test_vocabularies_count_and_keep_the_order(reference, tmp_path):
    path = tmp_path / "day_0"
    texts = [b"b", b"a", b"b", b"", b"a", b"c", b"00"]
    path.write_bytes(b"".join(line(f14=text) + b"\n" for text in texts))
    run = reference.preprocess([path], frequency_threshold=2)
    assert list(run.known[0].items()) == [
        *((0xB, (2, 2)), (0xA, (3, 2)), (0, (4, 2)), (0xC, (1, 1)))
    ]
    assert run.parts[0].sparse[:, 0].tolist() == [2, 3, 2, 4, 3, 1, 4]


def test_days_come_in_the_order_of_their_numbers(reference, tmp_path):
    for name in ("day_10", "day_9.gz", "day_0", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in reference.inputs(tmp_path)] == ["day_0", "day_9.gz", "day_10"]
