"""TRL 1.16.0: prompt and completion, or messages with `assistant_only_loss`.

Followed: trainer/sft_trainer.py (no mask per message: of prompt and completion the completion is
trained on, `assistant_only_loss` leaves the assistant's messages of it; `tools` may be JSON text),
scripts/utils.py (`datasets` of a config).
"""

from typing import Final

import pyarrow as pa

from ingot.converters.export.chats import Chat, Fitted, cut_tail, listed_tools, some_trained
from ingot.converters.export.layout import (
    TURN_FIELDS,
    Trainer,
    Way,
    Written,
    everything,
    messages,
    only_assistant,
)
from ingot.converters.export.yamltext import yaml_text
from ingot.converters.record_kinds import Record
from ingot.converters.rows import Json

_MESSAGES: Final = pa.list_(pa.field("element", pa.struct(TURN_FIELDS)))
_SPLIT: Final = pa.schema(
    [("prompt", _MESSAGES), ("completion", _MESSAGES), ("tools", pa.string())]
)
_WHOLE: Final = pa.schema([("messages", _MESSAGES), ("tools", pa.string())])


def _fit(chat: Chat) -> Fitted:
    return some_trained(chat).then(listed_tools, cut_tail)


def _split_row(chat: Chat) -> Record:
    said, start = messages(chat), chat.trained.index(True)
    return {"prompt": said[:start], "completion": said[start:], "tools": chat.tools}


def _whole_row(chat: Chat) -> Record:
    return {"messages": messages(chat), "tools": chat.tools}


def _completion(chat: Chat) -> tuple[bool, ...]:
    start = chat.trained.index(True)
    return tuple(at >= start for at in range(len(chat.turns)))


def _assistant_of_completion(chat: Chat) -> tuple[bool, ...]:
    both = zip(_completion(chat), only_assistant(chat), strict=True)
    return tuple(late and assistant for late, assistant in both)


def _settings(written: Written) -> dict[str, Json]:
    columns = list(written.way.schema.names) if written.way else ["text"]
    entry: dict[str, Json] = {
        "path": "parquet",
        "data_files": list(written.files),
        "split": "train",
        "columns": columns,
    }
    if written.kind == "pt":
        return {"datasets": [entry], "dataset_text_field": "text"}
    return {"datasets": [entry], **written.settings}


def _configs(written: Written) -> dict[str, bytes]:
    comment = "Part of a config of `trl sft`; paths are seen from this folder: start trl here."
    return {"trl.yaml": yaml_text(_settings(written), comment=comment)}


def _use(written: Written, out: str) -> tuple[str, ...]:
    lines = [f"put what {out}/trl.yaml says into your config; start `trl sft --config` in {out}"]
    if written.settings.get("assistant_only_loss"):
        lines.append("assistant_only_loss needs a chat template with {% generation %}")
    if written.split != "train":
        lines.append(
            "trl's config has no place for evaluation: with trl.yaml it trains on this data"
        )
    return tuple(lines)


def _masks(*, completion: bool, assistant: bool) -> dict[str, Json]:
    return {"completion_only_loss": completion, "assistant_only_loss": assistant}


TRAINER: Final = Trainer(
    name="trl",
    version="1.16.0",
    fit=_fit,
    ways=(
        Way(
            name="completion",
            settings=_masks(completion=True, assistant=False),
            schema=_SPLIT,
            row=_split_row,
            trains=_completion,
            needs_prompt=True,
        ),
        Way(
            name="assistant",
            settings=_masks(completion=False, assistant=True),
            schema=_WHOLE,
            row=_whole_row,
            trains=only_assistant,
        ),
        Way(
            name="assistant_of_completion",
            settings=_masks(completion=True, assistant=True),
            schema=_SPLIT,
            row=_split_row,
            trains=_assistant_of_completion,
            needs_prompt=True,
        ),
        Way(
            name="everything",
            settings=_masks(completion=False, assistant=False),
            schema=_WHOLE,
            row=_whole_row,
            trains=everything,
            trains_tools=True,
        ),
    ),
    configs=_configs,
    use=_use,
)
