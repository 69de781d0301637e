"""The graph as it draws itself: Mermaid text, and the block of a document that holds it.

`python docs/img/graph.py docs/architecture.md` writes the current graph between the markers.
"""

import re
import sys
from pathlib import Path

BLOCK_BEGIN, BLOCK_END = "<!-- graph:begin -->", "<!-- graph:end -->"
_BLOCK = re.compile(f"{re.escape(BLOCK_BEGIN)}.*?{re.escape(BLOCK_END)}", re.DOTALL)


def mermaid_text() -> str:
    """The compiled graph as Mermaid text."""
    from ingot.agent.served.graph import graph

    return graph.get_graph().draw_mermaid().strip()


def graph_block() -> str:
    """The graph between its markers, as it stands in the README."""
    return f"{BLOCK_BEGIN}\n```mermaid\n{mermaid_text()}\n```\n{BLOCK_END}"


def refresh_block(text: str) -> str:
    """The document with its block replaced."""
    if not _BLOCK.search(text):
        raise ValueError(f"no {BLOCK_BEGIN} ... {BLOCK_END} in the document")
    return _BLOCK.sub(lambda _: graph_block(), text, count=1)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(refresh_block(document.read_text(encoding="utf-8")), encoding="utf-8")
