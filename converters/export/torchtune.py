"""torchtune 0.6.1: a builder with a transform of its own that sets `Message.masked`.

Followed: data/_messages.py (`masked` is the opposite of `loss_mask`; `validate_messages` refuses an
assistant's message that does not follow a user's, two users' in a row, and a system message that is
not the first; a message has no place for tools), datasets/_sft.py, datasets/_text_completion.py.
"""

from importlib.resources import files
from typing import Final

from ingot.converters.export.chats import (
    Chat,
    Fitted,
    alternating,
    no_neighbours,
    one_system,
    some_trained,
    still_trained,
    tools_in_system,
    user_first,
)
from ingot.converters.export.layout import RECORD_ROWS, Trainer, Way, Written, record_row
from ingot.converters.export.yamltext import yaml_text
from ingot.converters.rows import Json

MODULE: Final = "ingot_records.py"


def _fit(chat: Chat) -> Fitted:
    return some_trained(chat).then(
        tools_in_system,
        one_system,
        no_neighbours("user", "assistant"),
        user_first,
        alternating("user"),
        still_trained,
    )


def _trains(chat: Chat) -> tuple[bool, ...]:
    return chat.trained


def _entry(written: Written) -> dict[str, Json]:
    named: dict[str, Json] = {"data_files": list(written.files), "packed": False, "split": "train"}
    if written.kind == "pt":
        text: dict[str, Json] = {"source": "parquet", "column": "text", "add_eos": True}
        return {"_component_": "torchtune.datasets.text_completion_dataset", **text, **named}
    return {"_component_": "ingot_records.records_dataset", **named}


def _configs(written: Written) -> dict[str, bytes]:
    key = "dataset" if written.split == "train" else "dataset_val"
    comment = "Part of a torchtune config; its paths are seen from this folder: start tune here."
    configs = {"torchtune.yaml": yaml_text({key: _entry(written)}, comment=comment)}
    if written.kind == "pt":
        return configs
    return {**configs, MODULE: files(__package__).joinpath("ingot_records.txt").read_bytes()}


def _use(written: Written, out: str) -> tuple[str, ...]:
    return (f"put the entry of {out}/torchtune.yaml into your config; start `tune run` in {out}",)


TRAINER: Final = Trainer(
    name="torchtune",
    version="0.6.1",
    fit=_fit,
    ways=(Way(name="message", schema=RECORD_ROWS, row=record_row, trains=_trains),),
    reads_records=True,
    configs=_configs,
    use=_use,
)
