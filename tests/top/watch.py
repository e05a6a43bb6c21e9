"""`rota top` on a terminal that only the test sees: keys in, text out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rota.settings import Settings
from rota.store.open import open_store
from rota.top.textual_app import Top
from tests.support.eventually import in_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot

SMALL, WIDE = (80, 24), (150, 44)


class Watch:
    """What a person sees and presses."""

    def __init__(self, top: Top, pilot: Pilot[None]) -> None:
        self.top = top
        self._pilot = pilot

    @property
    def lines(self) -> list[str]:
        """The screen as it is drawn."""
        return [strip.text.rstrip() for strip in self.top.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def line(self, *words: str) -> str:
        """The first line that has all of these words; nothing when there is none."""
        return next((line for line in self.lines if all(word in line for word in words)), "")

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)
        await self._pilot.pause()

    async def write(self, text: str) -> None:
        await self.press(*(text and list(text)), "enter")

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)

    async def sees(self, *words: str, within: float = 30) -> str:
        """The line that has all of these words, once there is one."""
        try:
            return await in_time(lambda: self.line(*words), within)
        except AssertionError:
            raise AssertionError(f"{words} are not on the screen:\n{self.text}") from None

    async def misses(self, *words: str, within: float = 30) -> None:
        """Wait until no line has all of these words."""
        try:
            await in_time(lambda: not self.line(*words), within)
        except AssertionError:
            raise AssertionError(f"{words} are still on the screen:\n{self.text}") from None

    async def chooses(self, *words: str) -> None:
        """Move the cursor of the pane down to the line that has these words."""
        await self.sees(*words)
        await self.press("home")
        for _ in range(200):
            if self.line("▸", *words):
                return
            await self.press("down")
        raise AssertionError(f"the cursor never came to {words}:\n{self.text}")


def watch(url: str, scene: Callable[[Watch], Awaitable[None]], size: tuple[int, int] = SMALL) -> None:
    """Open it on this database, play the scene, close it."""

    async def play() -> None:
        top = Top(lambda: open_store(url, Settings()))
        async with top.run_test(size=size) as pilot:
            await in_time(lambda: top.snapshot is not None)
            await scene(Watch(top, pilot))
        assert not top.reader.is_alive()

    asyncio.run(play())
