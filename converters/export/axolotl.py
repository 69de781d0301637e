"""axolotl 0.19.0: `type: chat_template` with `message_field_training`, and `type: completion`.

Followed: prompt_strategies/chat_template.py (a turn that says whether it is trained on is taken at
its word, of any role; a `system` column that is null in some rows of a batch gives those rows a
system turn without content, so the system text goes into the messages), utils/data/shared.py.
"""

from typing import Final

from ingot.converters.export import chat_layout as layout
from ingot.converters.json_yaml import dump_yaml
from ingot.converters.records.schema import Record
from ingot.converters.rows import Json


def _row(chat: layout.Chat) -> Record:
    messages = [
        {"role": turn.role, "content": turn.content, "training": turn.trained}
        for turn in chat.turns
    ]
    return {"messages": messages, "tools": chat.tools}


def _entry(written: layout.WrittenFiles) -> dict[str, Json]:
    entry: dict[str, Json] = {"path": written.files[0], "ds_type": "parquet", "split": "train"}
    if len(written.files) > 1:
        entry |= {"path": written.folder, "data_files": list(written.files)}
    if written.kind == "pt":
        return {**entry, "type": "completion", "field": "text"}
    return {
        **entry,
        "type": "chat_template",
        "field_messages": "messages",
        "field_tools": "tools",
        "message_property_mappings": {"role": "role", "content": "content"},
        "message_field_training": "training",
        "roles_to_train": [],
        "train_on_eos": "turn",
        "roles": {role: [role] for role in ("user", "assistant", "system", "tool")},
    }


def _configs(written: layout.WrittenFiles) -> dict[str, bytes]:
    key = "datasets" if written.split == "train" else "test_datasets"
    comment = "Part of an axolotl config; its paths are seen from this folder: start axolotl here."
    return {"axolotl.yaml": dump_yaml({key: [_entry(written)]}, comment=comment)}


def _usage_lines(written: layout.WrittenFiles, out: str) -> tuple[str, ...]:
    return (f"put the entry of {out}/axolotl.yaml into your config; start axolotl in {out}",)


TRAINER: Final = layout.Trainer(
    name="axolotl",
    version="0.19.0",
    steps=(layout.require_trained, layout.require_tool_list),
    ways=(
        layout.TrainingMode(
            name="message",
            schema=layout.marked_rows("training"),
            row=_row,
            trains=layout.record_mask,
        ),
    ),
    configs=_configs,
    use=_usage_lines,
)
