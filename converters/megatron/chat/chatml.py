"""Render chats as ChatML: one by one, or all of a table at once.

Every message is `<|im_start|>ROLE`, a line break, the content as it is, `<|im_end|>`, a line break.
The record's `system` comes first as a message of role system; tool definitions stand in that
message under a line `# Tools`, after a blank line where there is a system text. Nothing is
stripped, escaped or added: a marker that stands in a content reads as a marker.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingot.converters.megatron.chat.loss_masks import TrainedSpans
from ingot.converters.megatron.chat.rendering import RenderedChat, TextSpan
from ingot.converters.megatron.engines.engine import byte_offsets
from ingot.converters.rows import Json

TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"


def render_table(table: pa.RecordBatch) -> tuple[pa.LargeStringArray, TrainedSpans] | None:
    """Render SFT records as `render_chat` does, column by column.

    None where a record has no messages, or a message no role.
    """
    text = pa.large_string()
    lists = table["messages"]
    flat, counts = lists.flatten(), lists.value_lengths().fill_null(0).to_numpy()
    role, content = flat.field("role").cast(text), flat.field("content").cast(text).fill_null("")
    if not len(table) or not counts.all() or flat.null_count or role.null_count:
        return None
    pieces = _join(TURN_START, role, "\n", content, f"{TURN_END}\n")
    bounds = np.concatenate([[0], np.cumsum(counts)])
    # The texts of a record's messages lie behind each other already.
    borders = pa.py_buffer(byte_offsets(pieces)[bounds])
    texts = pa.LargeStringArray.from_buffers(len(counts), borders, pieces.buffers()[2])
    system, tools = table["system"].cast(text), _join("# Tools\n", table["tools"].cast(text))
    both = pc.coalesce(_join(system, "\n\n", tools), system, tools)
    first = _join(f"{TURN_START}system\n", both, f"{TURN_END}\n").fill_null("")
    ends = np.cumsum(pc.utf8_length(pieces).to_numpy())
    before = np.concatenate([[0], ends])[bounds[:-1]] - pc.utf8_length(first).to_numpy()
    starts = ends - pc.utf8_length(content).to_numpy() - len(TURN_END) - 1
    owners = np.repeat(np.arange(len(counts)), counts)
    trained = flat.field("loss_mask").fill_null(False).to_numpy(zero_copy_only=False)
    spans = TrainedSpans(
        owners=owners[trained],
        starts=(starts - before[owners])[trained],
        ends=(ends - 1 - before[owners])[trained],
        closing=trained[bounds[1:] - 1],
    )
    return _join(first, texts) if both.null_count < len(both) else texts, spans


def _join(*parts: pa.LargeStringArray | str) -> pa.LargeStringArray:
    """The parts of each text joined; null where one is."""
    text = pa.large_string()
    given = (pa.scalar(part, text) if isinstance(part, str) else part for part in parts)
    return pc.binary_join_element_wise(*given, pa.scalar("", text))


def render_chat(
    messages: Iterable[dict[str, Json]], *, system: str | None = None, tools: str | None = None
) -> RenderedChat:
    """Render the messages of an SFT record (`role`, `content`, `loss_mask`) as ChatML.

    Args:
        messages: in order; a null content is an empty one.
        system: the record's system text, None = no system message of its own.
        tools: JSON text of the tool definitions.
    """
    pieces: list[str] = []
    spans: list[TextSpan] = []
    length = 0
    parts = [system] if system is not None else []
    parts += [f"# Tools\n{tools}"] if tools is not None else []
    first = {"role": "system", "content": "\n\n".join(parts), "loss_mask": False}
    for message in [first, *messages] if parts else messages:
        header = f"{TURN_START}{message['role']}\n"
        body = f"{message['content'] or ''}{TURN_END}"
        start = length + len(header)
        length = start + len(body) + 1
        spans.append(TextSpan(start, length - 1, bool(message["loss_mask"])))
        pieces += (header, body, "\n")
    return RenderedChat(text="".join(pieces), spans=tuple(spans))
