"""What a disk gives by itself: measured on real files, not said where there is too little."""

from ingot.converters.megatron.metrics.summary import measure_sequential_mbps


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
