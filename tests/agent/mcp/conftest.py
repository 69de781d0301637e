"""A folder of data, and the client of the MCP SDK that talks to a real process over it."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

SECRET = "hunter-7781-zebra"


class Talk:
    """Calls of one client; an answer is a document, an error of a tool its text."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.heard: list[str] = []

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content[0].text
        self.heard.append(answer.content[0].text)
        return json.loads(answer.content[0].text)

    async def refused(self, tool: str, **arguments: Any) -> str:
        answer = await self.client.call_tool(tool, arguments)
        assert answer.is_error, answer.content[0].text
        self.heard.append(answer.content[0].text)
        return answer.content[0].text

    async def resource(self, uri: str) -> str:
        found = await self.client.read_resource(uri)
        self.heard.append(found.contents[0].text)
        return found.contents[0].text


def talk(
    root: Path, said: Callable[[Talk], Awaitable[Any]], *options: str, **settings: Any
) -> list[str]:
    """Start `ingot mcp --root ROOT OPTION...`, say something to it; everything that it answered."""

    from mcp import Client  # the tests that ask for it are skipped without the extra
    from mcp.client.stdio import StdioServerParameters

    async def run() -> list[str]:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "ingot", "mcp", "--root", str(root), *options],
            env=dict(os.environ),
            cwd=root.parent,
        )
        async with asyncio.timeout(100), Client(command, **settings) as client:
            one = Talk(client)
            await said(one)
            return one.heard

    return asyncio.run(run())


def write_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`qa.jsonl` passes every gate, a person has to look at `unsure.jsonl`; a secret outside."""
    folder = tmp_path / "root"
    questions = [
        {
            "id": f"q{n}",
            "question": f"What is the name of river number {n}?",
            "answer": f"It is called the river {n}, and it flows to the sea.",
            "password": SECRET if n == 3 else f"hunter-{n}-zebra",
        }
        for n in range(40)
    ]
    questions[5]["answer"] += f" The key is {SECRET}, write to ann.lee@example.com."
    write_rows(folder / "data" / "qa.jsonl", questions)
    draw = Random(1)
    words = ["river", "stone", "house", "light", "green", "under", "cloud", "paper", "music"]
    texts = [" ".join(draw.choices(words, k=13)).capitalize() + "." for _ in range(80)]
    unsure = [{"k": n, "c1": texts[n], "c2": texts[n + 40]} for n in range(40)]
    write_rows(folder / "data" / "unsure.jsonl", unsure)
    write_rows(tmp_path / "outside.jsonl", [{"text": "canary-4410"}] * 40)
    return folder
