"""One run of `rota chaos`: a folder, a plan, a storm, and what it came to."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from rota.core.errors import Refused
from rota.lab.chaos import report
from rota.lab.chaos.lab_crew import LabCrew
from rota.lab.chaos.plan import draw
from rota.lab.chaos.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.demo.server import OwnServer
    from rota.lab.chaos.plan import Options, Plan


def _blow(crew: LabCrew, plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """The storm itself; afterwards none of its processes is there."""
    try:
        storm = Scenario(crew, plan, say)
        try:
            return report.document(storm.run())
        finally:
            storm.close()
    finally:
        crew.close()


def run(
    options: Options, say: Callable[[str], None], url: str | None = None, server: OwnServer | None = None
) -> dict[str, Any]:
    """Blow a storm; its document. The folder is kept, and named, when something went wrong; so is the schema.

    `server`: the one at this URL is the storm's own.
    """
    if not os.path.isdir("/proc/self/fd"):
        raise Refused("chaos needs Linux: it looks at processes through /proc")
    folder = tempfile.mkdtemp(prefix="rota-chaos-")
    plan = draw(options)
    say(f"seed {options.seed}: {options.jobs} jobs, {len(plan.faults)} faults, {options.minutes:g} min, in {folder}")
    crew = LabCrew(folder, options.shape, url=url)
    crew.server = server
    try:
        told = _blow(crew, plan, say)
    except KeyboardInterrupt:
        crew.close()
        crew.remove()
        raise
    if report.is_good(told):
        crew.remove()
    else:
        say(f"kept for a look: {folder}" + (f", and the schema {crew.schema}" if crew.schema else ""))
    return told


def compare(
    options: Options, say: Callable[[str], None], url: str | None = None, server: OwnServer | None = None
) -> dict[str, Any]:
    """The same jobs without a fault first; the document of the storm then tells how much of that pace was kept."""
    say("first without a fault")
    calm = run(options.replace(faults=0), say, url, server)
    if not report.is_good(calm):
        return calm
    told = run(options, say, url, server)
    pace = calm["jobs_per_second"]  # 0 for a job or two
    told["of_the_undisturbed_pace"] = round(told["jobs_per_second"] / pace, 3) if pace else None
    told["undisturbed_turnaround_ms"] = calm["turnaround_ms"]
    return told
