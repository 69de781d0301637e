"""The generated messages are those of the `.proto` files, and the public ones on the wire."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.schemas.monolith import example_pb2, instance_pb2, line_id_pb2

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "monolith"


@pytest.mark.more
def test_make_protos_gives_what_is_there(tmp_path):
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    protos = sorted((ROOT / "schemas" / "monolith").glob("*.proto"))
    names = [f"ingot/schemas/monolith/{path.name}" for path in protos]
    words = [f"-I{ROOT}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", *names]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *words], check=True, cwd=ROOT)
    made = sorted((tmp_path / "ingot" / "schemas" / "monolith").iterdir())
    assert len(made) == 6
    for path in made:
        assert path.read_bytes() == (ROOT / "schemas" / "monolith" / path.name).read_bytes(), path


def numbers(message):
    return {field.name: field.number for field in message.DESCRIPTOR.fields}


def test_the_union_of_the_document_and_the_public_messages():
    kinds = {
        **{"fid_v1_list": 1, "fid_v2_list": 2, "float_list": 3, "double_list": 4},
        **{"int64_list": 5, "bytes_list": 6, "fid_v2_lists": 7, "float_lists": 8},
        **{"double_lists": 9, "int64_lists": 10, "bytes_lists": 11, "int64_value": 12},
        **{"float_value": 13, "double_value": 14, "bytes_value": 15, "fid_v1_lists": 16},
    }
    assert numbers(example_pb2.Feature) == kinds
    assert len(example_pb2.Feature.DESCRIPTOR.oneofs) == 1
    lists = {"name": 1, "feature": 2, "type": 3, "id": 4}
    assert numbers(example_pb2.NamedFeatureList) == lists
    assert numbers(example_pb2.ExampleBatch) == {
        **{"named_feature_list": 1, "named_raw_feature_list": 2, "batch_size": 3},
        "data_source_key": 100,
    }
    assert numbers(example_pb2.NamedFeature) == {"name": 1, "feature": 2, "id": 3, "sorted_id": 6}
    assert numbers(example_pb2.Example) == {
        **{"named_feature": 1, "named_raw_feature": 2, "line_id": 100, "label": 101},
        **{"instance_weight": 102, "data_source_key": 103},
    }
    assert numbers(line_id_pb2.LineId) == {
        **{"uid": 2, "req_time": 3, "item_id": 4, "req_id": 5, "actions": 6, "chnid": 19},
        **{"generate_time": 20, "emit_type": 21, "pre_actions": 23, "model_names": 25},
        **{"sample_rate": 27, "special_strategies": 39, "device_type": 41, "cid": 48},
        **{"user_id": 49, "is_draw": 87, "rank": 145, "data_source_name": 235},
    }
    assert line_id_pb2.LineId().sample_rate == 1.0
    assert numbers(instance_pb2.Instance) == {
        **{"fid": 1, "value": 2, "label": 3, "instance_weight": 4, "line_id": 5, "dense": 6},
        **{"label_tag": 7, "next_fid": 8, "feature": 9, "data_source_key": 100},
    }


def test_the_public_sample_is_what_its_text_says():
    batch = example_pb2.ExampleBatch.FromString((GOLDEN / "example_batch.pb").read_bytes())
    text = (GOLDEN / "example_batch.pbtxt").read_text()
    names = re.findall(r'^  name: "(.*)"$', text, re.MULTILINE)
    assert [one.name for one in batch.named_feature_list] == names
    assert len(names) == 139
    fids = [int(fid) for fid in re.findall(r"fid_v1_list \{\s+value: (\d+)", text)]
    found = [f.fid_v1_list.value for one in batch.named_feature_list for f in one.feature]
    assert [values[0] for values in found if values] == fids
    assert len(fids) == 989


@pytest.mark.parametrize("module", [example_pb2, instance_pb2, line_id_pb2])
def test_the_package_is_our_own(module):
    """Monolith's own messages can be imported beside them."""
    assert module.DESCRIPTOR.package == "ingot.monolith"
