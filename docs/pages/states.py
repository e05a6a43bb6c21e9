"""The states page: what each state means, and the moves between them, drawn from the tables in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.pages.markdown import code, join, sentence, table
from rota.core import claim, health, job, orchestrator, slot, worker
from rota.core.state_machine import diagram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rota.core.state_machine import Moves

INTRODUCTION = """\
# States

Each kind of thing has one table of moves in the code. The diagrams below are drawn from these tables, the database's
checks are made from the states, and a move that is not in its table is an error that stops the transaction."""

JOB = {
    job.BLOCKED: "waits for another job (`dependency`), for room under its key's limit (`limit`), or for a worker that"
    " knows its kind (`kind`)",
    job.SCHEDULED: "its time has not come: added with `--at`, debounced or snoozed, or waiting before its next attempt",
    job.READY: "can be claimed now",
    job.ACTIVE: "claimed: a worker holds it, and its row carries the claim",
    job.DONE: "finished",
    job.FAILED: "its attempts are used up, its failure was final, it cost three workers (quarantined), or no worker"
    " knew its kind in time",
    job.CANCELLED: "called off by a person",
}
CLAIM = {
    claim.ACTIVE: "the job's row names the worker, the token and, for a claim by hand, the lease",
    claim.COMPLETED: "its holder reported success",
    claim.FAILED: "its holder reported failure",
    claim.RELEASED: "given back, snoozed or cancelled; no attempt is spent",
    claim.EXPIRED: "its lease ran out, or its worker died",
}
WORKER = {
    worker.STARTING: "started, but has not spoken yet",
    worker.IDLE: "alive, holds nothing",
    worker.BUSY: "alive, holds at least one job",
    worker.STOPPING: "finishes what it holds, then leaves",
    worker.STOPPED: "left in peace",
    worker.DEAD: "fell silent, or was seen to die; what it held went back. A registered one that speaks is revived",
}
SHOWN = {
    worker.PAUSED: "an idle worker whose queue, or everything, is paused",
    worker.LATE: "an unseen worker that has missed a beat and may yet be heard",
}
SLOT = {
    slot.EMPTY: "no worker is in it",
    slot.STARTING: "a worker was started and has not said yet that it is well",
    slot.UP: "its worker is well, and gets jobs",
    slot.BACKOFF: "its worker died; the next one starts after a while",
    slot.STOPPING: "its worker finishes what it holds, then leaves",
    slot.FAILED: "given up after too many restarts; `rota reset` fills it again",
}
HEALTH = {
    health.PENDING: "started, and has not said yet that it is well",
    health.HEALTHY: "said so lately",
    health.LATE: "silent for more than nine seconds",
    health.RECOVERING: "asked for time, which it gets once",
    health.DEAD: "gone; a late word revives nobody",
}
ORCHESTRATOR = {
    orchestrator.STOPPED: "gone, or given up because its lease lapsed",
    orchestrator.STARTING: "about to take up its slots",
    orchestrator.RUNNING: "keeps its slots filled and renews its lease",
    orchestrator.STOPPING: "drains its workers",
}


def page() -> str:
    return join(
        INTRODUCTION,
        *_machine("Job", "The last three are final until `rota retry` starts a new generation.", JOB, job.MOVES),
        *_machine(
            "Claim", "A live claim is columns of its job's row; each ended one leaves a run.", CLAIM, claim.MOVES
        ),
        *_machine("Worker", "One life of one process.", WORKER, worker.MOVES),
        "Two more are shown to people and never stored:",
        _meanings(SHOWN),
        *_machine("Slot", "The lasting place that a worker fills.", SLOT, slot.MOVES),
        *_machine("Health", "An orchestrator's opinion of a worker that it watches.", HEALTH, health.MOVES),
        *_machine("Orchestrator", "As the store knows it.", ORCHESTRATOR, orchestrator.MOVES),
    )


def _machine(noun: str, remark: str, meanings: Mapping[str, str], moves: Moves) -> list[str]:
    rows = [
        (code(old or "(new)"), code(verb), ", ".join(code(new) for new in sorted(targets)))
        for (old, verb), targets in moves.items()
    ]
    return [
        f"## {noun}",
        remark,
        _meanings(meanings),
        f"```mermaid\n{diagram(moves)}\n```",
        table(("from", "verb", "to one of"), rows),
    ]


def _meanings(meanings: Mapping[str, str]) -> str:
    return table(("state", "meaning"), [(code(state), sentence(text)) for state, text in meanings.items()])
