"""A client of `rota mcp`: the SDK's own, over a real process."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from mcp import Client, StdioServerParameters

from tests.support.shell import ROTA, environment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.shell import Shell


class Caller:
    """The client's side of one session."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **words: Any) -> Any:
        """What a tool answers."""
        answer = await self.client.call_tool(tool, words)
        told = answer.content[0].text if answer.content else ""  # type: ignore[union-attr]
        assert not answer.is_error, told
        assert json.loads(told) == answer.structured_content, "what a model reads is what a program gets"
        return answer.structured_content

    async def refused(self, tool: str, **words: Any) -> str:
        """The words with which a tool refuses."""
        answer = await self.client.call_tool(tool, words)
        assert answer.is_error, answer
        text: str = answer.content[0].text  # type: ignore[union-attr]
        assert "Traceback" not in text
        return text.removeprefix(f"Error executing tool {tool}: ")


def converse(shell: Shell, talk: Callable[[Caller], Awaitable[None]], *options: str, **env: str) -> None:
    """Start `rota mcp` in this shell, and talk to it; leaving ends it as a client's end does."""
    told = {**environment(**shell.env), **env}
    server = StdioServerParameters(command=ROTA, args=["mcp", *options], env=told, cwd=shell.folder)

    async def run() -> None:
        async with Client(server) as client:
            await talk(Caller(client))

    asyncio.run(run())


def pid_of(shell: Shell, name: str) -> int:
    """The process of a living session."""
    (found,) = [worker["pid"] for worker in shell.ask("worker", "list") if worker["name"] == name]
    pid: int = found
    return pid
