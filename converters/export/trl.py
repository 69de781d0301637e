"""TRL 1.16.0: prompt and completion, or messages with `assistant_only_loss`.

Followed: trainer/sft_trainer.py (no mask per message: of prompt and completion the completion is
trained on, `assistant_only_loss` leaves the assistant's messages of it; `tools` may be JSON text),
scripts/utils.py (`datasets` of a config).
"""

from functools import partial
from typing import Final

import pyarrow as pa

from ingot.converters.export import chat_layout as layout
from ingot.converters.json_yaml import dump_yaml
from ingot.converters.records.schema import Record
from ingot.converters.rows import Json

_MESSAGES: Final = pa.list_(pa.field("element", pa.struct(layout.TURN_FIELDS)))
_SPLIT: Final = pa.schema(
    [("prompt", _MESSAGES), ("completion", _MESSAGES), ("tools", pa.string())]
)
_WHOLE: Final = pa.schema([("messages", _MESSAGES), ("tools", pa.string())])


def _split_row(chat: layout.Chat) -> Record:
    messages, start = layout.message_rows(chat), chat.trained.index(True)
    return {"prompt": messages[:start], "completion": messages[start:], "tools": chat.tools}


def _whole_row(chat: layout.Chat) -> Record:
    return {"messages": layout.message_rows(chat), "tools": chat.tools}


def _completion_mask(chat: layout.Chat) -> tuple[bool, ...]:
    start = chat.trained.index(True)
    return tuple(number >= start for number in range(len(chat.turns)))


def _configs(written: layout.WrittenFiles) -> dict[str, bytes]:
    columns = list(written.way.schema.names) if written.way else ["text"]
    entry: dict[str, Json] = {
        "path": "parquet",
        "data_files": list(written.files),
        "split": "train",
        "columns": columns,
    }
    settings = {"dataset_text_field": "text"} if written.kind == "pt" else written.settings
    comment = "Part of a config of `trl sft`; paths are seen from this folder: start trl here."
    return {"trl.yaml": dump_yaml({"datasets": [entry], **settings}, comment=comment)}


def _usage_lines(written: layout.WrittenFiles, out: str) -> tuple[str, ...]:
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


_split_mode: Final = partial(layout.TrainingMode, schema=_SPLIT, row=_split_row, needs_prompt=True)
_whole_mode: Final = partial(layout.TrainingMode, schema=_WHOLE, row=_whole_row)

TRAINER: Final = layout.Trainer(
    name="trl",
    version="1.16.0",
    steps=(layout.require_trained, layout.require_tool_list, layout.cut_tail),
    ways=(
        _split_mode(
            name="completion",
            settings=_masks(completion=True, assistant=False),
            trains=_completion_mask,
        ),
        _whole_mode(
            name="assistant",
            settings=_masks(completion=False, assistant=True),
            trains=layout.assistant_mask,
        ),
        _split_mode(
            name="assistant_of_completion",
            settings=_masks(completion=True, assistant=True),
            trains=lambda chat: tuple(
                map(all, zip(_completion_mask(chat), layout.assistant_mask(chat), strict=True))
            ),
        ),
        _whole_mode(
            name="everything",
            settings=_masks(completion=False, assistant=False),
            trains=layout.full_mask,
            trains_tools=True,
        ),
    ),
    configs=_configs,
    use=_usage_lines,
)
