"""The config files, held to what the trainers' own sources take; test_peers.py runs those."""

import json
import shlex
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from ingot.converters.export.chat_layout import WrittenFiles
from ingot.converters.export.trainers import TRAINERS

FILES = {
    1: ("data/train-00000.parquet",),
    2: ("data/train-00000.parquet", "data/train-00001.parquet"),
}
TEXT = {"type": "string", "minLength": 1}
PATH = {"type": "string", "pattern": r"\.parquet$"}
PATHS = {"type": "array", "items": PATH, "minItems": 1}


def closed(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """A schema of an object with these keys, no other, all there but the optional ones."""
    needed = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


# data/parser.py of LLaMA-Factory 0.9.5: DatasetAttr.join names every column and tag.
COLUMNS = (
    *("prompt", "query", "response", "history", "messages", "system", "tools", "images"),
    *("videos", "audios", "chosen", "rejected", "kto_tag"),
)
TAGS = (
    *("role_tag", "content_tag", "user_tag", "assistant_tag", "observation_tag"),
    *("function_tag", "system_tag"),
)
LLAMAFACTORY = closed(
    {
        "file_name": TEXT,
        "ranking": {"const": False},
        "formatting": {"enum": ["alpaca", "sharegpt"]},
        "columns": closed({key: {"type": ["string", "null"]} for key in COLUMNS}),
        "tags": closed(dict.fromkeys(TAGS, TEXT)),
    }
)
# dataset/register.py of ms-swift 4.6.0: _preprocess_d_info, MessagesPreprocessor.
SWIFT = closed(
    {
        "dataset_name": TEXT,
        "dataset_path": PATH,
        "columns": {"type": "object", "additionalProperties": TEXT},
        "messages": closed(
            {
                **dict.fromkeys(("role_key", "content_key", "user_role", "assistant_role"), TEXT),
                "system_role": TEXT,
                "message_format": {"enum": ["auto", "swift", "openai", "anthropic"]},
            }
        ),
    },
    optional=("messages",),
)
# utils/schemas/datasets.py of axolotl 0.19.0: SFTDataset.
AXOLOTL = closed(
    {
        "path": TEXT,
        "data_files": PATHS,
        "ds_type": {"const": "parquet"},
        "split": {"const": "train"},
        "type": {"enum": ["chat_template", "completion"]},
        "field": TEXT,
        "field_messages": TEXT,
        "field_tools": TEXT,
        "message_property_mappings": closed({"role": TEXT, "content": TEXT}),
        "message_field_training": TEXT,
        "roles_to_train": {"const": []},
        "train_on_eos": {"enum": ["all", "turn", "last", "none"]},
        "roles": {"type": "object"},
    },
    optional=(
        *("data_files", "field", "field_messages", "field_tools", "message_property_mappings"),
        *("message_field_training", "roles_to_train", "train_on_eos", "roles"),
    ),
)
# scripts/utils.py of TRL 1.16.0: DatasetConfig.
TRL = closed(
    {
        "path": {"const": "parquet"},
        "data_files": PATHS,
        "split": {"const": "train"},
        "columns": {"type": "array", "items": TEXT},
    }
)
# datasets/_text_completion.py of torchtune 0.6.1, and the builder that is written beside it.
TORCHTUNE = closed(
    {
        "_component_": {
            "enum": ["torchtune.datasets.text_completion_dataset", "ingot_records.records_dataset"]
        },
        "data_files": PATHS,
        "packed": {"type": "boolean"},
        "split": {"const": "train"},
        "source": {"const": "parquet"},
        "column": {"const": "text"},
        "add_eos": {"const": True},
    },
    optional=("source", "column", "add_eos"),
)


def configs(trainer: str, kind: Any = "sft", *, files: int = 1, way: int = 0) -> dict[str, Any]:
    one = TRAINERS[trainer]
    chosen = one.ways[way] if kind == "sft" else None
    written = WrittenFiles(name="chats", kind=kind, way=chosen, files=FILES[files], split="train")
    return {
        name: yaml.safe_load(text)
        for name, text in one.configs(written).items()
        if ".py" not in name
    }


def entries(trainer: str, found: dict[str, Any]) -> list[Any]:
    places = {
        "llamafactory": lambda: list(found["dataset_info.json"].values()),
        "swift": lambda: found["dataset_info.json"],
        "axolotl": lambda: found["axolotl.yaml"]["datasets"],
        "trl": lambda: found["trl.yaml"]["datasets"],
        "torchtune": lambda: [found["torchtune.yaml"]["dataset"]],
    }
    return places[trainer]()


@pytest.mark.parametrize(
    ("trainer", "schema"),
    [
        ("llamafactory", LLAMAFACTORY),
        ("swift", SWIFT),
        ("axolotl", AXOLOTL),
        ("trl", TRL),
        ("torchtune", TORCHTUNE),
    ],
)
@pytest.mark.parametrize("kind", ["pt", "sft"])
@pytest.mark.parametrize("files", [1, 2])
def test_entries_hold_what_the_trainer_reads_and_nothing_else(trainer, schema, kind, files):
    Draft202012Validator.check_schema(schema)
    for entry in entries(trainer, configs(trainer, kind, files=files)):
        Draft202012Validator(schema).validate(entry)


def test_llamafactory_is_told_of_masks_by_settings_of_the_run():
    assert configs("llamafactory", way=1)["llamafactory.yaml"] == {
        "stage": "sft",
        "dataset_dir": ".",
        "dataset": "chats",
        "mask_history": True,
        "train_on_prompt": False,
    }
    assert configs("llamafactory", "pt")["llamafactory.yaml"]["stage"] == "pt"


def test_llamafactory_reads_a_folder_where_there_are_several_files():
    entry = entries("llamafactory", configs("llamafactory", files=2))[0]
    assert entry["file_name"] == "data"
    assert {name for name, column in entry["columns"].items() if column} == {
        *("messages", "system", "tools"),
    }
    texts = entries("llamafactory", configs("llamafactory", "pt"))[0]
    assert (texts["formatting"], texts["columns"]["prompt"]) == ("alpaca", "text")


def test_swift_has_an_entry_for_every_file_and_is_strict():
    found = configs("swift", files=2)
    assert [entry["dataset_name"] for entry in found["dataset_info.json"]] == [
        "chats_ingot-00000",
        "chats_ingot-00001",
    ]
    assert found["swift.yaml"] == {
        "custom_dataset_info": ["dataset_info.json"],
        "dataset": ["chats_ingot-00000", "chats_ingot-00001"],
        "strict": True,
        "loss_scale": "default",
    }


def test_axolotl_reads_a_mask_for_every_message():
    entry = entries("axolotl", configs("axolotl", files=2))[0]
    assert (entry["path"], entry["data_files"]) == ("data", list(FILES[2]))
    assert (entry["message_field_training"], entry["type"]) == ("training", "chat_template")
    texts = entries("axolotl", configs("axolotl", "pt"))[0]
    assert (texts["type"], texts["field"]) == ("completion", "text")


@pytest.mark.parametrize(
    ("way", "completion", "assistant", "columns"),
    [
        (0, True, False, ["prompt", "completion", "tools"]),
        (1, False, True, ["messages", "tools"]),
        (2, True, True, ["prompt", "completion", "tools"]),
        (3, False, False, ["messages", "tools"]),
    ],
)
def test_trl_is_told_of_masks_by_two_settings(way, completion, assistant, columns):
    found = configs("trl", way=way)["trl.yaml"]
    assert found["completion_only_loss"] is completion
    assert found["assistant_only_loss"] is assistant
    assert found["datasets"][0]["columns"] == columns


def test_the_module_for_torchtune_is_python_and_names_what_the_config_asks_for():
    one = TRAINERS["torchtune"]
    written = WrittenFiles(name="c", kind="sft", way=one.ways[0], files=FILES[1], split="train")
    module = one.configs(written)["ingot_records.py"].decode()
    scope = compile(module, "ingot_records.py", "exec")
    assert "records_dataset" in scope.co_names
    assert json.dumps("masked")[1:-1] in module
    assert "ingot_records.py" not in one.configs(
        WrittenFiles(name="c", kind="pt", way=None, files=FILES[1], split="train")
    )


@pytest.mark.parametrize("place", ["out", "/a b", "12", "null", "./it's: #1", "2024_01"])
def test_llamafactory_is_started_with_keys_and_values_of_yaml(place):
    one = TRAINERS["llamafactory"]
    named = WrittenFiles(name="7", kind="sft", way=one.ways[1], files=FILES[1], split="train")
    (line,) = one.use(named, place)
    words = shlex.split(line)
    assert words[:3] == ["llamafactory-cli", "train", "CONFIG.yaml"]
    pairs = dict(word.split("=", 1) for word in words[3:])
    assert {key: yaml.safe_load(value) for key, value in pairs.items()} == {
        "stage": "sft",
        "dataset_dir": place,
        "dataset": "7",
        "mask_history": True,
        "train_on_prompt": False,
    }
