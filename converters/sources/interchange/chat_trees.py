"""Chats that an export holds as trees: the branch that was shown becomes a list of messages.

Questions that were edited and answers that were made again are branches. Two tools export them, as
elements of a JSON list or as a file of one object:

- ChatGPT: `mapping` holds nodes by id, each with `message` and `parent`; `current_node` is the last
  node that was shown. The row has the `messages` of that branch in place of `mapping`.
- Claude: each of `chat_messages` has `uuid` and `parent_message_uuid`;
  `current_leaf_message_uuid`, else the last message of the list, is the last one that was shown.

`other_messages` of a row is the number of messages on other branches, which are left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ingot.converters.json_yaml import found_text
from ingot.converters.rows import Json
from ingot.converters.sources.facts import FileFacts, SourceFile, SourceSpec
from ingot.converters.sources.formats.detection import TextHead, json_facts
from ingot.converters.sources.formats.json_documents import read_json_document
from ingot.converters.sources.formats.json_rows import compile_root, read_json_elements
from ingot.converters.sources.formats.row_chunks import BrokenRow, RowChunk, row_excerpt
from ingot.converters.sources.storage.listing import file_stem

CHAT_TREE = "chat_tree"
_OBJECTS = rb'"mapping"\s{0,9}:\s{0,9}\{\s{0,99}"[^"\\]{1,200}"\s{0,9}:\s{0,9}\{'
# The key of the messages of each tool: how they begin, and keys that they have.
_TREES = {
    "mapping": (b'"message"', b'"parent"', _OBJECTS),
    "chat_messages": (b'"uuid"', b'"parent_message_uuid"', rb'"chat_messages"\s{0,9}:\s{0,9}\['),
}
# What Claude names as the parent of a first message.
_NO_PARENT = (
    None,
    "00000000-0000-4000-8000-000000000000",
    "00000000-0000-0000-0000-000000000000",
)


class _TreeError(ValueError):
    """A chat is no tree with a branch that was shown; the message says why."""


def chat_tree_facts(head: TextHead, spec: SourceSpec, where: str) -> FileFacts | None:
    """Return the facts of a JSON file of chats that are trees."""
    names = (
        key for key, marks in _TREES.items() if all(re.search(mark, head.data) for mark in marks)
    )
    key = next(names, None)
    if key is None or spec.root or spec.orient:
        return None
    facts = json_facts(head, spec, where)
    if facts is None or facts.layout == "values" or (facts.shape and key not in facts.shape):
        return None
    return replace(facts, format=CHAT_TREE, shape=frozenset({key}), one_line=False)


def read_chat_trees(file: SourceFile, _: SourceSpec, parts: Iterator[bytes]) -> Iterator[RowChunk]:
    """Yield a row for each chat; one whose branch cannot be followed is a bad row."""
    where = str(file.place)
    if file.facts.layout == "object":
        root = compile_root("$", where)
        return show_branches(read_json_document(parts, file_stem(file.name), root, where))
    return show_branches(read_json_elements(parts, compile_root("[*]", where), where))


def show_branches(chunks: Iterable[RowChunk]) -> Iterator[RowChunk]:
    """Yield chunks of chats as they are read from JSON, each with the branch that was shown."""
    for chunk in chunks:
        yield replace(chunk, values=[_shown_chat(value) for value in chunk.values], sound=False)


def _shown_chat(chat: Json) -> Json:
    if type(chat) is BrokenRow:
        return chat
    try:
        fields = chat if isinstance(chat, dict) else {}
        if isinstance(nodes := fields.get("mapping"), dict):
            return _shown_nodes(fields, nodes)
        if isinstance(messages := fields.get("chat_messages"), list):
            return _shown_messages(fields, messages)
        raise _TreeError("no `mapping` and no `chat_messages`")
    except _TreeError as error:
        return BrokenRow(f"not a chat: {error}", row_excerpt(found_text(chat)))


def _shown_nodes(chat: dict[str, Json], nodes: dict[str, Json]) -> Json:
    """A chat of ChatGPT; `hidden` of a message says that the page does not show it."""
    leaf = chat.get("current_node")
    if nodes and leaf is None:
        raise _TreeError("no `current_node`, which names the branch that was shown")
    branch = [node.get("message") for node in _follow_parents(nodes, leaf, "parent")]
    messages = [message for message in branch if message is not None]
    for message in messages:
        if not isinstance(message, dict):
            raise _TreeError(f"a message is {found_text(message)}")
    for message in messages:  # in place, as the rows are nobody else's
        facts = message.get("metadata")
        hidden = isinstance(facts, dict) and facts.get("is_visually_hidden_from_conversation")
        message["hidden"] = hidden is True
    every = [node.get("message") for node in nodes.values() if isinstance(node, dict)]
    rest = {key: value for key, value in chat.items() if key != "mapping"}
    return {
        **rest,
        "messages": messages,
        "other_messages": len(every) - every.count(None) - len(messages),
    }


def _shown_messages(chat: dict[str, Json], messages: list[Json]) -> Json:
    """A chat of Claude. One whose messages name no parents is the list that it is."""
    nodes: dict[str, Json] = {}
    for message in messages:
        key = message.get("uuid") if isinstance(message, dict) else None
        if not isinstance(key, str) or key in nodes:
            raise _TreeError(f"{found_text(key)} as the `uuid` of a message, or of two")
        nodes[key] = message
    if not any("parent_message_uuid" in message for message in nodes.values()):
        return {**chat, "other_messages": 0}
    leaf = chat.get("current_leaf_message_uuid") or next(reversed(nodes))
    branch = _follow_parents(nodes, leaf, "parent_message_uuid")
    return {**chat, "chat_messages": branch, "other_messages": len(messages) - len(branch)}


def _follow_parents(nodes: dict[str, Json], leaf: Json, parent: str) -> list[dict[str, Json]]:
    """The nodes from the first one to the leaf. Raises _TreeError."""
    branch: dict[str, dict[str, Json]] = {}
    while leaf not in _NO_PARENT:
        node = nodes.get(leaf) if isinstance(leaf, str) else None
        if not isinstance(node, dict):
            raise _TreeError(f"there is no message {found_text(leaf)}, which another one names")
        if leaf in branch:
            raise _TreeError(f"message {found_text(leaf)} follows on itself")
        branch[leaf] = node
        leaf = node.get(parent)
    return [*reversed(branch.values())]
