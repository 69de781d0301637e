"""Parts of a conversion and of a lake into an object store, and their merge."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.s3_server import Storage
from tests.scale.jobs import (
    JOBS,
    RESULT,
    TOKENIZER,
    in_store,
    ingot,
    ingot_alone,
    joined_tokens,
    tree,
)


@pytest.mark.more
def test_parts_give_the_manifest_of_one_machine(s3: Storage, tmp_path: Path) -> None:
    from ingot.converters.output.object_store import list_names, read_json

    job, url = JOBS["convert"], f"s3://bucket/{tmp_path.name}"
    job.prepare(tmp_path)
    assert ingot(tmp_path, *job.words).returncode == 0
    words = (*job.words[:-1], url)
    for number in (1, 0):
        if number == 0:
            refused = ingot(tmp_path, "merge", url)
            assert refused.returncode == 1
            assert "pieces are not done" in refused.stderr
        done = ingot(tmp_path, *words, "--shard", f"{number}/2")
        assert done.returncode == 5, done.stderr
        assert read_json(f"{url}/manifest.json") is None
    done = ingot(tmp_path, "merge", url)
    assert done.returncode == 0, done.stderr
    assert read_json(f"{url}/manifest.json") == json.loads(
        (tmp_path / RESULT / "manifest.json").read_bytes()
    )
    assert not [name for name in list_names(url) if name.startswith(".ingot-work")]
    assert ingot(tmp_path, "merge", url).returncode == 0


@pytest.mark.more
def test_parts_of_a_lake_at_once_give_the_results_of_one_machine(
    s3: Storage, tmp_path: Path
) -> None:
    job, prefix = JOBS["lake"], tmp_path.name
    job.prepare(tmp_path)
    assert ingot(tmp_path, *job.words).returncode == 0
    words = (*job.words[:3], "--out", "parts", "--results", f"s3://bucket/{prefix}", *job.words[5:])
    for _ in range(job.phases):
        with ThreadPoolExecutor(2) as threads:
            done = threads.map(
                lambda n: ingot_alone(tmp_path, *words, "--shard", f"{n}/2"), range(2)
            )
        assert [one.returncode for one in done] == [5, 5]
    merged = ingot(tmp_path, "merge", "parts")
    assert merged.returncode == 0, merged.stderr
    assert "0 of them new or changed" in merged.stderr
    names = [name for name in s3.names("bucket", f"{prefix}/") if not name.endswith("run.json")]
    there = {name.removeprefix(f"{prefix}/"): s3.get(f"/bucket/{name}") for name in names}
    whole = tree(tmp_path / RESULT)
    assert there == {name: data for name, data in whole.items() if name.startswith("sets/")}
    assert whole.keys() - there.keys() == tree(tmp_path / "parts").keys()
    assert ingot(tmp_path, "merge", "parts").returncode == 0


@pytest.mark.more
def test_parts_of_tokens_are_the_local_data_set(s3: Storage, tmp_path: Path) -> None:
    """Input and output in the store; part 1 has run when part 0 begins."""
    words, url = in_store(JOBS["tokens"], s3, tmp_path)
    for number in (1, 0):
        done = ingot(tmp_path, *words, "--shard", f"{number}/2", "--processes", "2")
        assert done.returncode == 5, done.stderr
    done = ingot(tmp_path, "merge", url)
    assert done.returncode == 0, done.stderr
    assert joined_tokens(tmp_path, url) == tree(tmp_path / RESULT)
    seen = ingot(tmp_path, "tokens", "inspect", url, "--json")
    assert json.loads(seen.stdout)["meta"]["tokenizer"]["file"] == "tokenizer.json"
    source = ("--source", "src", "--tokenizer", TOKENIZER)
    verified = ingot(tmp_path, "tokens", "verify", url, *source, "--all")
    assert verified.returncode == 0, verified.stderr
    again = ingot(tmp_path, *words)
    assert again.returncode == 0, again.stderr
    assert "nothing to do" in again.stderr
    refused = ingot(tmp_path, *words[:-1], "elsewhere")
    assert refused.returncode == 1
    assert "where the output is a URL too" in refused.stderr
