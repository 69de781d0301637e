"""LLaMA-Factory 0.9.5: `dataset_info.json` with every column and tag, and the settings.

Followed: data/parser.py (a key that is not listed in `columns` or `tags` loses its default),
data/converter.py (the ShareGPT converter wants user and tool on odd places, the assistant on even
ones, and empties an example that has it otherwise), data/processor/supervised.py (every assistant
message is trained on; `mask_history`: the last; `train_on_prompt`: everything), hparams/parser.py
(behind a config `read_args` takes `key=value` of YAML alone, no options with dashes).
"""

import json
import re
import shlex
from typing import Final

from ingot.converters.export import chat_layout as layout
from ingot.converters.json_yaml import dump_yaml
from ingot.converters.rows import Json

_COLUMNS: Final = (
    *("prompt", "query", "response", "history", "messages", "system", "tools"),
    *("images", "videos", "audios", "chosen", "rejected", "kto_tag"),
)
_TAGS: Final[dict[str, Json]] = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "observation_tag": "tool",
    "function_tag": "function_call",
    "system_tag": "system",
}

_YAML_WORDS: Final = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def _entry(written: layout.WrittenFiles) -> dict[str, Json]:
    path = written.files[0] if len(written.files) == 1 else written.folder
    columns = {"messages": "messages", "system": "system", "tools": "tools"}
    if written.kind == "pt":
        columns = {"prompt": "text"}
    return {
        "file_name": path,
        "ranking": False,
        "formatting": "alpaca" if written.kind == "pt" else "sharegpt",
        "columns": {name: columns.get(name) for name in _COLUMNS},
        "tags": _TAGS,
    }


def _settings(written: layout.WrittenFiles) -> dict[str, Json]:
    key = "dataset" if written.split == "train" else "eval_dataset"
    stage: dict[str, Json] = {"stage": written.kind, "dataset_dir": ".", key: written.name}
    return {**stage, **written.settings}


def _configs(written: layout.WrittenFiles) -> dict[str, bytes]:
    info = json.dumps({written.name: _entry(written)}, ensure_ascii=False, indent=2)
    comment = "Part of a LLaMA-Factory config; dataset_dir is this folder."
    return {
        "dataset_info.json": f"{info}\n".encode(),
        "llamafactory.yaml": dump_yaml(_settings(written), comment=comment),
    }


def _usage_lines(written: layout.WrittenFiles, out: str) -> tuple[str, ...]:
    settings = {**_settings(written), "dataset_dir": out}
    words = [f"{key}={_yaml_word(value)}" for key, value in settings.items()]
    line = shlex.join(["llamafactory-cli", "train", "CONFIG.yaml", *words])
    if written.split == "train":
        return (line,)
    return (line, "dataset_dir is one for both: docs/export.md has the step that joins two exports")


def _yaml_word(value: Json) -> str:
    """A value behind `key=`, quoted where YAML would not take it for this very text."""
    if (
        isinstance(value, str)
        and re.fullmatch(r"([A-Za-z/]|\.\.?/)[\w./-]*", value)
        and value.lower() not in _YAML_WORDS
    ):
        return value
    return json.dumps(value, ensure_ascii=False)


TRAINER: Final = layout.Trainer(
    name="llamafactory",
    version="0.9.5",
    steps=(
        layout.require_trained,
        layout.require_tool_list,
        layout.merge_system,
        layout.cut_tail,
        layout.end_with_assistant,
        layout.merge_neighbours("user", "assistant", "tool"),
        layout.begin_with_user,
        layout.require_alternating("user", "tool"),
        layout.require_still_trained,
    ),
    ways=(
        layout.TrainingMode(
            name="assistant",
            settings={"mask_history": False, "train_on_prompt": False},
            trains=layout.assistant_mask,
        ),
        layout.TrainingMode(
            name="last",
            settings={"mask_history": True, "train_on_prompt": False},
            trains=lambda chat: (*(False for _ in chat.turns[:-1]), True),
        ),
        layout.TrainingMode(
            name="everything",
            settings={"mask_history": False, "train_on_prompt": True},
            trains=layout.full_mask,
            trains_tools=True,
        ),
    ),
    reads_records=True,
    configs=_configs,
    use=_usage_lines,
)
