"""YAML that people write: read without its traps, written a value on a line."""

from typing import Any

import yaml

_DEEPEST = 32  # levels


def read(text: str) -> Any:  # noqa: ANN401
    """What a document of YAML says.

    Raises:
        ValueError: it is none, or holds what is not read here.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


class _Loader(yaml.SafeLoader):
    """YAML without what blows up, hides or turns into other types: aliases, merges, tags, depth."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.events.AliasEvent):
            raise _refused("an alias is not read", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _refused(f"a tag is not read: {event.tag}", event.start_mark)
        if self._depth == _DEEPEST:
            raise _refused("nested too deep", event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: ANN401
        seen: set[object] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _refused("a key is no text", key.start_mark)
            if key.tag == "tag:yaml.org,2002:merge":
                raise _refused("a merge is not read", key.start_mark)
            if key.value in seen:
                raise _refused(f"the key {key.value!r} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _refused(said: str, mark: Any) -> yaml.constructor.ConstructorError:  # noqa: ANN401
    return yaml.constructor.ConstructorError(None, None, said, mark)


def flow(value: Any) -> str:  # noqa: ANN401
    """A value as YAML on one line."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=10**9,
        sort_keys=False,
    )  # fmt: skip
    return text.removesuffix("...\n").rstrip("\n")


class _Dumper(yaml.SafeDumper):
    """YAML in which no text is broken into lines."""


def _in_one_line(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # The library takes other line ends than \n for blanks where they stand in plain quotes.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _in_one_line)
