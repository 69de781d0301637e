"""torchtune 0.6.1: a builder with a transform of its own that sets `Message.masked`.

Followed: data/_messages.py (`masked` is the opposite of `loss_mask`; `validate_messages` refuses an
assistant's message that does not follow a user's, two users' in a row, and a system message that is
not the first; a message has no place for tools), datasets/_sft.py, datasets/_text_completion.py.
"""

from importlib.resources import files
from typing import Final

from ingot.converters.export.chat_layout import (
    RECORD_ROWS,
    Chat,
    FittedChat,
    Trainer,
    TrainingMode,
    WrittenFiles,
    begin_with_user,
    merge_neighbours,
    merge_system,
    move_tools_to_system,
    record_row,
    require_alternating,
    require_still_trained,
    require_trained,
)
from ingot.converters.json_yaml import dump_yaml
from ingot.converters.rows import Json

MODULE: Final = "ingot_records.py"


def _fit(chat: Chat) -> FittedChat:
    return require_trained(chat).then(
        move_tools_to_system,
        merge_system,
        merge_neighbours("user", "assistant"),
        begin_with_user,
        require_alternating("user"),
        require_still_trained,
    )


def _training_mask(chat: Chat) -> tuple[bool, ...]:
    return chat.trained


def _entry(written: WrittenFiles) -> dict[str, Json]:
    named: dict[str, Json] = {"data_files": list(written.files), "packed": False, "split": "train"}
    if written.kind == "pt":
        text: dict[str, Json] = {"source": "parquet", "column": "text", "add_eos": True}
        return {"_component_": "torchtune.datasets.text_completion_dataset", **text, **named}
    return {"_component_": "ingot_records.records_dataset", **named}


def _configs(written: WrittenFiles) -> dict[str, bytes]:
    key = "dataset" if written.split == "train" else "dataset_val"
    comment = "Part of a torchtune config; its paths are seen from this folder: start tune here."
    configs = {"torchtune.yaml": dump_yaml({key: _entry(written)}, comment=comment)}
    if written.kind == "pt":
        return configs
    return {**configs, MODULE: files(__package__).joinpath("ingot_records.txt").read_bytes()}


def _usage_lines(written: WrittenFiles, out: str) -> tuple[str, ...]:
    return (f"put the entry of {out}/torchtune.yaml into your config; start `tune run` in {out}",)


TRAINER: Final = Trainer(
    name="torchtune",
    version="0.6.1",
    fit=_fit,
    ways=(TrainingMode(name="message", schema=RECORD_ROWS, row=record_row, trains=_training_mask),),
    reads_records=True,
    configs=_configs,
    use=_usage_lines,
)
