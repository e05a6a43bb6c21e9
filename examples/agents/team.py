"""A team over a list of tasks: each is planned, implemented and reviewed, by commands.

python team.py tasks.toml                            adds what the list has and the database has not
rota run --app team:app --pool agents=2              works on it
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from rota import App

app = App()
AGENT = str(Path(__file__).with_name("agent.py"))
QUEUE = "agents"


@app.command(queue=QUEUE, argv=[sys.executable, AGENT, "plan"], timeout="10m")
def plan(task: str) -> None:
    """Say how it will be done."""


@app.command(queue=QUEUE, argv=[sys.executable, AGENT, "implement"], timeout="30m")
def implement(task: str) -> None:
    """Do it, with the notes of earlier reviews."""


@app.command(queue=QUEUE, argv=[sys.executable, AGENT, "review"], timeout="10m", max_attempts=5)
def review(task: str) -> None:
    """Approve it, or send it back with notes: a failed attempt, after which it is implemented once more."""


def load(path: str) -> None:
    """Three jobs for each task, one after another; the first waits for the reviews of the tasks it needs."""
    reviews: dict[str, int] = {}
    for task in tomllib.loads(Path(path).read_text(encoding="utf-8"))["task"]:
        name, after = task["name"], [reviews[each] for each in task.get("after", ())]
        for stage in (plan, implement, review):
            kind = stage.__name__
            # The key makes loading again harmless: the job that is there already is found.
            new = stage.template.replace(
                title=f"{kind} {name}", payload={"task": name}, after=after, key=f"{kind}:{name}"
            )
            job = app.enqueue(new)
            after = [job.id]
        reviews[name] = job.id
        print(f"{name}: job {job.id} is its review")


if __name__ == "__main__":
    load(sys.argv[1])
