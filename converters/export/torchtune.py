"""torchtune 0.6.1: a builder with a transform of its own that sets `Message.masked`.

Followed: data/_messages.py (`masked` is the opposite of `loss_mask`; `validate_messages` refuses an
assistant's message that does not follow a user's, two users' in a row, and a system message that is
not the first; a message has no place for tools), datasets/_sft.py, datasets/_text_completion.py.
"""

from importlib.resources import files
from typing import Final

from ingot.converters.export import chat_layout as layout
from ingot.converters.json_yaml import dump_yaml
from ingot.converters.rows import Json

MODULE: Final = "ingot_records.py"


def _entry(written: layout.WrittenFiles) -> dict[str, Json]:
    arguments: dict[str, Json] = {
        "data_files": list(written.files),
        "packed": False,
        "split": "train",
    }
    if written.kind == "pt":
        text: dict[str, Json] = {"source": "parquet", "column": "text", "add_eos": True}
        return {"_component_": "torchtune.datasets.text_completion_dataset", **text, **arguments}
    return {"_component_": "ingot_records.records_dataset", **arguments}


def _configs(written: layout.WrittenFiles) -> dict[str, bytes]:
    key = "dataset" if written.split == "train" else "dataset_val"
    comment = "Part of a torchtune config; its paths are seen from this folder: start tune here."
    configs = {"torchtune.yaml": dump_yaml({key: _entry(written)}, comment=comment)}
    if written.kind == "pt":
        return configs
    return {**configs, MODULE: files(__package__).joinpath("ingot_records.txt").read_bytes()}


def _usage_lines(written: layout.WrittenFiles, out: str) -> tuple[str, ...]:
    return (f"put the entry of {out}/torchtune.yaml into your config; start `tune run` in {out}",)


TRAINER: Final = layout.Trainer(
    name="torchtune",
    version="0.6.1",
    steps=(
        layout.require_trained,
        layout.move_tools_to_system,
        layout.merge_system,
        layout.merge_neighbours("user", "assistant"),
        layout.begin_with_user,
        layout.require_alternating("user"),
        layout.require_still_trained,
    ),
    ways=(layout.TrainingMode(name="message", trains=layout.record_mask),),
    reads_records=True,
    configs=_configs,
    use=_usage_lines,
)
