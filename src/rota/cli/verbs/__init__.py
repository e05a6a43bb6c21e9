"""The verbs: one file per noun, with each verb's entry of the command table above its function.

This file is the index: it says which module a verb stands in, so that a call imports no other. A file with a hot verb
imports next to nothing at module level (decision 5); heavy imports of the others stand inside functions, because help,
completion and the docs load every verb. Start at `claims.py` for a hot verb and `schedules.py` for an ordinary one.
"""

from __future__ import annotations

from rota.cli.verb import Verb

# The module of every verb and alias, below `rota.cli`, in the order in which help and the docs show them.
SECTIONS: dict[str, dict[str, str]] = {
    "First": {
        "init": "verbs.init_run",
        "run": "verbs.init_run",
    },
    "Jobs": {
        "add": "verbs.jobs",
        "ready": "verbs.claims",
        "show": "verbs.jobs",
        "runs": "verbs.jobs",
        "logs": "verbs.logs",
        "list": "verbs.jobs",
        "why": "verbs.jobs",
        "block": "verbs.jobs",
        "unblock": "verbs.jobs",
        "done": "verbs.claims",
        "fail": "verbs.claims",
        "snooze": "verbs.claims",
        "results": "verbs.jobs",
        "cancel": "verbs.jobs",
        "retry": "verbs.jobs",
        "wait": "verbs.jobs",
    },
    "Claims": {
        "claim": "verbs.claims",
        "claim:renew": "verbs.claims",
        "claim renew": "verbs.claims",
        "claim:release": "verbs.claims",
        "claim release": "verbs.claims",
    },
    "Workers": {
        "worker register": "verbs.workers",
        "worker heartbeat": "verbs.workers",
        "worker deregister": "verbs.workers",
        "worker list": "verbs.workers",
        "worker status": "verbs.workers",
        "worker stop": "verbs.workers",
    },
    "Crew": {
        "orchestrator start": "verbs.orchestrator",
        "worker start": "verbs.orchestrator",
        "worker exec": "verbs.orchestrator",
        "orchestrator stop": "verbs.orchestrator",
        "orchestrator status": "verbs.orchestrator",
        "scale": "verbs.orchestrator",
        "drain": "verbs.orchestrator",
        "reset": "verbs.orchestrator",
        "top": "verbs.top",
    },
    "Queues": {
        "queue list": "verbs.queues",
        "queue set": "verbs.queues",
        "pause": "verbs.queues",
        "resume": "verbs.queues",
    },
    "Sources": {
        "source list": "verbs.sources",
        "source check": "verbs.sources",
        "source forget": "verbs.sources",
    },
    "Schedules": {
        "schedule add": "verbs.schedules",
        "schedule list": "verbs.schedules",
        "schedule show": "verbs.schedules",
        "schedule pause": "verbs.schedules",
        "schedule resume": "verbs.schedules",
        "schedule run": "verbs.schedules",
        "schedule remove": "verbs.schedules",
    },
    "HTTP": {
        "serve": "verbs.serve",
        "open": "verbs.serve",
        "token create": "verbs.serve",
        "token list": "verbs.serve",
        "token revoke": "verbs.serve",
    },
    "MCP": {
        "mcp": "verbs.serve",
    },
    "Store": {
        "reconcile": "verbs.maintenance",
        "orchestrator reconcile": "verbs.maintenance",
        "events": "verbs.events",
        "prune": "verbs.maintenance",
        "migrate": "verbs.maintenance",
        "doctor": "doctor",
        "completion": "completion",
        "help": "help",
    },
    "Tracking": {
        "tracking install": "verbs.tracking",
        "tracking uninstall": "verbs.tracking",
        "tracking status": "verbs.tracking",
        "tracking prune": "verbs.tracking",
    },
    "Trials": {
        "demo": "verbs.trials",
        "chaos": "verbs.trials",
        "bench": "verbs.trials",
    },
}


def find(words: list[str]) -> tuple[Verb, list[str]] | None:
    """Return the verb that the first words name and the words after it, importing only its module."""
    for length in (2, 1):
        name = " ".join(words[:length])
        for modules in SECTIONS.values():
            if name in modules and len(words) >= length:
                return _load(name, modules[name]), words[length:]
    return None


def names() -> list[str]:
    """Return every name and alias, without importing any verb."""
    return [name for modules in SECTIONS.values() for name in modules]


def sections() -> dict[str, list[Verb]]:
    """Return all verbs under the headings of `rota --help`."""
    return {
        title: [verb for name, module in modules.items() if (verb := _load(name, module)).name == name]
        for title, modules in SECTIONS.items()
    }


def all_verbs() -> list[Verb]:
    """Return all verbs, in the order of `rota --help`."""
    return [verb for verbs in sections().values() for verb in verbs]


def by_name() -> dict[str, Verb]:
    """Return all verbs by every name that they answer to."""
    return {name: verb for verb in all_verbs() for name in (verb.name, *verb.aliases)}


def _load(name: str, module: str) -> Verb:
    contents = vars(__import__(f"rota.cli.{module}", fromlist=("",)))
    for value in contents.values():
        if isinstance(value, Verb) and name in (value.name, *value.aliases):
            return value
    raise LookupError(f"rota.cli.{module} declares no verb {name!r}")
