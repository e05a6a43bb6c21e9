"""Stands for the models: scripted answers, so that the examples run anywhere and always say the same.

Put your own client in its place. What the examples use of it is what most clients have: `complete` for one answer, a
`Session` for a conversation, and a command that prints JSON lines (`python model.py PROMPT`).
"""

import json
import os
import shlex
import subprocess
import sys
import time

PAUSE = float(os.environ.get("MODEL_PAUSE", "0"))  # how long it thinks before each word of a stream


def complete(prompt: str) -> str:
    """One answer to one prompt."""
    if prompt.startswith("Review"):
        return "APPROVED" if "second draft" in prompt else "REJECTED: the first draft has no tests"
    return f"answer to <{prompt}>"


class Session:
    """A conversation. `Session.resume(id, turns)` takes one up again where it broke off."""

    def __init__(self, id: str = "session-1", turns: int = 0) -> None:
        self.id = id
        self.turns = turns

    @classmethod
    def resume(cls, id: str, turns: int) -> "Session":
        return cls(id, turns)

    def send(self, prompt: str) -> None:
        self.prompt = prompt
        self.turns += 1

    def stream(self):
        """Messages as they come: text of the assistant, in pieces, and a result at the end."""
        for word in f"turn {self.turns}: working on it".split(" "):
            time.sleep(PAUSE)
            yield {"type": "assistant", "session_id": self.id, "text": word + " "}
        if self.turns > 1 and "run: " in self.prompt:  # told twice, it does as it is told
            command = shlex.split(self.prompt.partition("run: ")[2])
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield {"type": "result", "session_id": self.id, "text": ""}


if __name__ == "__main__":
    print(json.dumps({"type": "assistant", "text": complete(sys.argv[1])}))
    print("thinking took no time at all", file=sys.stderr)
    sys.exit("impossible" in sys.argv[1])
