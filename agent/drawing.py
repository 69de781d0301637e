"""The graph as it draws itself: Mermaid text, and the block of a document that holds it.

`python -m ingot.agent.drawing README.md` writes the current graph between the markers.
"""

import re
import sys
from pathlib import Path

BEGIN, END = "<!-- graph:begin -->", "<!-- graph:end -->"
_BLOCK = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


def mermaid() -> str:
    """The compiled graph as Mermaid text."""
    from ingot.agent.graph import graph

    return graph.get_graph().draw_mermaid().strip()


def block() -> str:
    """The graph between its markers, as it stands in the README."""
    return f"{BEGIN}\n```mermaid\n{mermaid()}\n```\n{END}"


def refreshed(text: str) -> str:
    """The document with its block replaced.

    Raises:
        ValueError: the document has no markers.
    """
    if not _BLOCK.search(text):
        raise ValueError(f"no {BEGIN} ... {END} in the document")
    return _BLOCK.sub(lambda _: block(), text, count=1)


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(refreshed(document.read_text(encoding="utf-8")), encoding="utf-8")
