"""ms-swift 4.6.0: messages with `loss`, and `dataset_info.json`.

Followed: dataset/preprocessor/core.py (messages keep role, content and loss; the system text is the
first message; `tools` is JSON text), template/base.py (neighbours of one role are glued together, a
tool's answer belongs to the assistant before it or to the user's message), loss_scale/base.py
(`loss` holds for the assistant's messages only; the end of the last one is always trained on).
"""

import json
import shlex
from typing import Final

from ingot.converters.export import chat_layout as layout
from ingot.converters.json_yaml import dump_yaml
from ingot.converters.records.schema import Record
from ingot.converters.rows import Json


def _order_rounds(chat: layout.Chat) -> layout.FittedChat:
    """Rounds of a question and an answer, once tools' answers are where ms-swift puts them."""
    turns = [turn for turn in chat.turns if turn.role != "system"]
    previous_roles = ["", *(turn.role for turn in turns)]
    rounds = [
        turn
        for turn, previous_role in zip(turns, previous_roles, strict=False)
        if turn.role != "tool" or previous_role not in ("tool", "user")
    ]
    opened = rounds[1:] if rounds[0].role == "assistant" else rounds  # it opens with an empty user
    alternating = layout.require_alternating("user", "tool")(layout.Chat(turns=tuple(opened)))
    return layout.keep_if(rounds[0].role != "tool" and alternating.chat, chat, "roles")


def _row(chat: layout.Chat) -> Record:
    messages = [
        {
            "role": turn.role,
            "content": turn.content,
            "loss": turn.trained if turn.role == "assistant" else None,
        }
        for turn in chat.turns
    ]
    return {"messages": messages, "tools": chat.tools}


def _set_names(written: layout.WrittenFiles) -> list[str]:
    # No name of a data set that ms-swift registers itself (`self-cognition`), or of a folder here.
    name = f"{written.name}_ingot"
    if len(written.files) == 1:
        return [name]
    return [f"{name}-{number:05d}" for number in range(len(written.files))]


def _entry(name: str, file: str, written: layout.WrittenFiles) -> dict[str, Json]:
    entry: dict[str, Json] = {"dataset_name": name, "dataset_path": file}
    if written.kind == "pt":
        return {**entry, "columns": {"text": "response"}}
    message_options: dict[str, Json] = {
        "role_key": "role",
        "content_key": "content",
        "user_role": "user",
        "assistant_role": "assistant",
        "system_role": "system",
        "message_format": "swift",
    }
    return {
        **entry,
        "columns": {"messages": "messages", "tools": "tools"},
        "messages": message_options,
    }


def _configs(written: layout.WrittenFiles) -> dict[str, bytes]:
    names = _set_names(written)
    entries = [_entry(name, file, written) for name, file in zip(names, written.files, strict=True)]
    key = "dataset" if written.split == "train" else "val_dataset"
    # Without `strict` a row that fails is deleted and training goes on.
    settings: dict[str, Json] = {
        "custom_dataset_info": ["dataset_info.json"],
        key: names,
        "strict": True,
        **written.settings,
    }
    comment = "Part of an ms-swift config; custom_dataset_info is the file in this folder."
    return {
        "dataset_info.json": f"{json.dumps(entries, ensure_ascii=False, indent=2)}\n".encode(),
        "swift.yaml": dump_yaml(settings, comment=comment),
    }


def _usage_lines(written: layout.WrittenFiles, out: str) -> tuple[str, ...]:
    flag = "--dataset" if written.split == "train" else "--val_dataset"
    names = " ".join(_set_names(written))
    info = shlex.quote(f"{out}/dataset_info.json")
    options = "".join(f" --{key} {value}" for key, value in written.settings.items())
    return (
        f"swift {written.kind} --custom_dataset_info {info} {flag} {names} --strict true{options}",
    )


TRAINER: Final = layout.Trainer(
    name="swift",
    version="4.6.0",
    steps=(
        layout.require_trained,
        layout.require_tool_list,
        layout.merge_system,
        layout.cut_tail,
        layout.end_with_assistant,
        layout.merge_neighbours("user", "assistant"),
        _order_rounds,
        layout.require_still_trained,
    ),
    ways=(
        layout.TrainingMode(
            name="message",
            settings={"loss_scale": "default"},
            schema=layout.marked_rows("loss"),
            row=_row,
            trains=lambda chat: tuple(
                turn.trained and turn.role == "assistant" for turn in chat.turns
            ),
        ),
    ),
    configs=_configs,
    use=_usage_lines,
)
