"""What a job's newest run writes, read on and on: from its files, or through the API of the host that has them."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from rota.core.errors import RotaError
from rota.core.ids import printable
from rota.store.jobs.output import LARGEST_TEXT, Output, missing, path_of, refuse_elsewhere

if TYPE_CHECKING:
    from rota.store.remote.client import Link
    from rota.store.store import Store

TRANSCRIPT, STDERR = "transcript", "stderr"


class Tail:
    """The last part of one stream. A new run begins it anew."""

    def __init__(self, job: int, stream: str) -> None:
        self.stream = stream
        self._job = job
        self._begin("")

    def _begin(self, run: str) -> None:
        self.run = run
        self._offset: int | None = None
        self._text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, store: Store) -> tuple[bool, str]:
        """Read on; whether there may be more, and what is in the way."""
        if store.link is not None:
            return self._ask(store.link)
        captured = store.claims.captured(self._job)
        if captured.run_id != self.run:
            self._begin(captured.run_id)
        try:
            path = path_of(captured, self.stream)
            with Output(path, captured.is_own) as output:
                if output.size is None:
                    refuse_elsewhere(store, self._job, captured)
                    raise missing(captured, self.stream, path)
                start = max(0, output.size - LARGEST_TEXT) if self._offset is None else self._offset
                self._offset = output.copy(lambda data: self._take(self._decoder.decode(data)), start)
        except RotaError as problem:
            return captured.is_live, str(problem)
        return captured.is_live, ""

    def _ask(self, link: Link) -> tuple[bool, str]:
        answer = link.get(f"/jobs/{self._job}/output", stream=self.stream, offset=self._offset, limit=LARGEST_TEXT)
        if answer["run_id"] != self.run:
            again = self._offset is not None
            self._begin(answer["run_id"])
            if again:
                return self._ask(link)
        self._offset = answer["next"]
        self._take(answer["text"])
        return answer["is_live"], ""

    def _take(self, text: str) -> None:
        self._text = (self._text + text)[-LARGEST_TEXT:]

    def lines(self) -> list[str]:
        """What it wrote, with nothing that could steer a terminal."""
        text = self._text.replace("\r\n", "\n").removesuffix("\n")
        return [printable(line) for line in text.split("\n")] if text else []
