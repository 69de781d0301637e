"""`ingot mcp --http`: only for those who have the token, only under its own address."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.agent.mcp.conftest import Talk

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
TOKEN = "t0ken-" * 8
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
KINDS = {"accept": "application/json, text/event-stream"}


@pytest.fixture
def url(root: Path) -> Iterator[str]:
    """The address of a server on a free port."""
    words = [sys.executable, "-m", "ingot", "mcp", "--root", str(root), "--http", "0"]
    process = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "INGOT_MCP_TOKEN": TOKEN},
    )
    assert process.stderr
    line = process.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)
    assert found, line
    yield found[0]
    process.terminate()
    rest = process.stderr.read()
    process.wait(timeout=30)
    process.stderr.close()
    assert TOKEN not in line + rest


def test_a_client_with_the_token_is_served(url: str) -> None:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with (
            asyncio.timeout(60),
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            seen = await Talk(client)("inspect_source", source="data/qa.jsonl")
            assert seen["source"]["files"] == 1

    asyncio.run(run())


def test_others_are_not(url: str) -> None:
    """Without the token, with another one, from a page, and under a foreign name."""
    right = {**KINDS, "authorization": f"Bearer {TOKEN}"}
    host = url.removeprefix("http://").removesuffix("/mcp")
    for headers, status in (
        (KINDS, 401),
        ({**KINDS, "authorization": "Bearer x"}, 401),
        ({**KINDS, "authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({**KINDS, "authorization": TOKEN}, 401),
        ({**right, "origin": "https://example.com"}, 403),
        ({**right, "origin": f"http://{host}"}, 403),
        ({**right, "host": "example.com"}, 421),
        ({**right, "host": host.replace("127.0.0.1", "rebound.example")}, 421),
        (right, 200),
    ):
        answer = httpx2.post(url, json=HELLO, headers=headers)
        assert answer.status_code == status, (headers, answer.text)
    for path in ("", "/", "/other", "/docs"):
        assert httpx2.get(f"http://{host}{path}", headers=KINDS).status_code == 401


@pytest.mark.more
@pytest.mark.parametrize("token", ["", "short"])
def test_no_server_without_a_token(root: Path, token: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ingot", "mcp", "--root", str(root), "--http", "0"],
        capture_output=True, text=True, cwd=root, env={**os.environ, "INGOT_MCP_TOKEN": token},
    )  # fmt: skip
    assert ran.returncode == 1
    assert "INGOT_MCP_TOKEN: set it to a random text" in ran.stderr
