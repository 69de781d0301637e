"""Files of parameters: what they may say, and every problem with its place."""

import hashlib
import json

import numpy as np
import pytest

from ingot.converters.errors import ParametersError
from ingot.converters.json_yaml import schema
from ingot.converters.recsys.criteo.contract import locate_arrays
from ingot.converters.recsys.criteo.multihot.id_tables import DISTRIBUTIONS, MOST_IDS, SEEDINGS
from ingot.converters.recsys.criteo.multihot.job import array_entries, load_config

ROWS = [*range(10, 36)]
FINE = {"num_embeddings": ROWS, "multi_hot_size": 3, "multi_hot_min_table_size": 30}


def written(tmp_path, document):
    path = tmp_path / "hot.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def test_json_with_everything(tmp_path):
    document = {
        "num_embeddings": ROWS,
        "multi_hot_sizes": [1, 2] * 13,
        "multi_hot_distribution_type": "pareto",
        "collect_multi_hot_freqs_stats": True,
        "seeding": "global0",
    }
    read = load_config(written(tmp_path, document))
    assert read.collect
    assert read.parameters.to_json() == {
        "num_embeddings": ROWS,
        "sizes": [1, 2] * 13,
        "distribution": "pareto",
        "seeding": "global0",
    }


def test_yaml_with_what_is_needed(tmp_path):
    text = f"# a comment\nnum_embeddings: {ROWS}\nmulti_hot_size: 3\nmulti_hot_min_table_size: 30\n"
    read = load_config(written(tmp_path, text))
    assert not read.collect
    assert read.parameters.sizes == (1,) * 20 + (3,) * 6
    assert (read.parameters.distribution, read.parameters.seeding) == ("uniform", "feature")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({**FINE, "multi_hot_sise": 3}, "'multi_hot_sise' was unexpected"),
        ({**FINE, "num_embeddings": ROWS[1:]}, "/num_embeddings: schema: .*too short"),
        ({**FINE, "num_embeddings": [0, *ROWS[1:]]}, "/num_embeddings/0: schema: .*minimum"),
        ({**FINE, "num_embeddings": [2.5, *ROWS[1:]]}, "/num_embeddings/0: .*'integer'"),
        ({**FINE, "num_embeddings": [9.0, *ROWS[1:]]}, "/num_embeddings/0: .*not an integer"),
        ({**FINE, "multi_hot_distribution_type": "zipf"}, "/multi_hot_distribution_type: schema"),
        ({**FINE, "collect_multi_hot_freqs_stats": "yes"}, "/collect_multi_hot_freqs_stats"),
        ({**FINE, "multi_hot_sizes": [2] * 26}, "/multi_hot_sizes: contradiction: .*beside them"),
        ({"num_embeddings": ROWS}, "/multi_hot_size: .*give multi_hot_size and multi_hot_min"),
        ({"multi_hot_size": 2}, "'num_embeddings' is a required property"),
        ("[1, 2]", "expected names and values, got list"),
        ("a: [", "cannot be read: "),
        ("multi_hot_size: 1\nmulti_hot_size: 2", "occurs twice"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, document, said):
    with pytest.raises(ParametersError, match=said) as raised:
        load_config(written(tmp_path, document))
    assert str(tmp_path / "hot.json") in str(raised.value)
    assert raised.value.exit_code == 2


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ParametersError, match="cannot be read: No such file"):
        load_config(tmp_path / "none.json")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParametersError, match="not UTF-8"):
        load_config(tmp_path / "bytes")
    (tmp_path / "large").write_bytes(b" " * (1 << 20 | 1))
    with pytest.raises(ParametersError, match="larger than 1 MiB"):
        load_config(tmp_path / "large")


def test_schema_and_code_know_the_same():
    known = schema("multihot")["properties"]
    assert known["multi_hot_distribution_type"]["enum"] == list(DISTRIBUTIONS)
    assert known["seeding"]["enum"] == list(SEEDINGS)
    assert known["multi_hot_size"]["maximum"] == MOST_IDS
    assert known["multi_hot_sizes"]["items"]["maximum"] == MOST_IDS


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"num_embeddings": ROWS[::-1]}, "num_embeddings", tuple(ROWS[::-1])),
        ({"multi_hot_size": 4}, "sizes", (1,) * 20 + (4,) * 6),
        ({"multi_hot_min_table_size": 35}, "sizes", (1,) * 25 + (3,)),
        ({"multi_hot_distribution_type": "pareto"}, "distribution", "pareto"),
        ({"seeding": "global0"}, "seeding", "global0"),
    ],
)
def test_each_entry_of_the_file_counts(tmp_path, change, field, value):
    plain = load_config(written(tmp_path, FINE)).parameters
    changed = load_config(written(tmp_path, {**FINE, **change})).parameters
    assert getattr(changed, field) == value != getattr(plain, field)


@pytest.mark.parametrize("collect", [True, False])
def test_counting_is_as_the_file_says(tmp_path, collect):
    path = written(tmp_path, {**FINE, "collect_multi_hot_freqs_stats": collect})
    assert load_config(path).collect is collect


def test_entries_of_the_arrays_that_are_read(tmp_path):
    shapes = {"dense": ("<f4", 13), "labels": ("<i4", 1), "sparse": ("<i4", 26)}
    for kind, (dtype, width) in shapes.items():
        np.save(tmp_path / f"day_0_{kind}.npy", np.ones((2, width), dtype))
    wanted = []
    for kind in shapes:
        content = (tmp_path / f"day_0_{kind}.npy").read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        wanted.append({"name": f"day_0_{kind}.npy", "bytes": len(content), "sha256": digest})
    assert array_entries(locate_arrays(tmp_path, "all")) == wanted
