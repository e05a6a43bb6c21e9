"""The types of the dashboard: the API's nouns that its pages read, as TypeScript."""

from __future__ import annotations

from typing import Any

from rota.api.app import ROUTES
from rota.api.openapi import document

HEAD = """// The nouns of the API that the pages read. Written by `./dev docs`, as is openapi.json.
import type { Json, JobStatus, Series, Settings } from "./states.ts";

export type * from "./states.ts";
"""
NOUNS = (
    "Me", "Job", "Run", "Output", "Node", "Graph", "Queue", "Slot", "Worker", "Death", "Notice", "Throughput",
    "Orchestrator", "Crew", "Source", "Schedule", "TrackedWorker", "Vectorizer", "Tracking",
)  # fmt: skip
# Types that states.ts declares, because several nouns or the pages themselves use them.
DECLARED = {
    '"blocked" | "scheduled" | "ready" | "active" | "done" | "failed" | "cancelled"': "JobStatus",
    "(number | null)[]": "Series",
}
NARROWER = {"Crew.settings": "Settings", "Queue.counts": "Record<JobStatus, number>"}
DETAILS = "details"  # The dashboard never asks for details.


def page() -> str:
    schemas = document(ROUTES)["components"]["schemas"]
    return "\n".join([HEAD, *(_interface(noun, schemas[noun]) for noun in NOUNS)])


def _interface(noun: str, schema: dict[str, Any]) -> str:
    lines = [f"export interface {noun} {{"]
    for name, field in schema["properties"].items():
        if name != DETAILS:
            mark = "" if name in schema["required"] else "?"
            lines.append(f"  {name}{mark}: {NARROWER.get(f'{noun}.{name}') or _type(field)};")
    return "\n".join([*lines, "}", ""])


def _type(schema: dict[str, Any]) -> str:
    match schema:
        case {"anyOf": list(kinds)}:
            text = " | ".join(_type(kind) for kind in kinds)
        case {"$ref": str(reference)}:
            text = reference.rpartition("/")[2]
        case {"enum": list(values)}:
            named = [f'"{value}"' for value in values if value is not None]
            text = " | ".join([_named(" | ".join(_in_order(named))), *(["null"] if None in values else [])])
        case {"prefixItems": list(kinds)}:
            text = f"[{', '.join(_type(kind) for kind in kinds)}]"
        case {"type": "array", "items": items}:
            inner = _type(items)
            text = f"({inner})[]" if " | " in inner else f"{inner}[]"
        case {"type": "object"}:
            text = f"Record<string, {_type(schema.get('additionalProperties') or {})}>"
        case {"type": "integer" | "number"}:
            text = "number"
        case {"type": "string" | "boolean" | "null" as plain}:
            text = plain
        case _:
            text = "Json"
    return _named(text)


def _named(text: str) -> str:
    return DECLARED.get(text, text)


def _in_order(values: list[str]) -> list[str]:
    """Return values in the order of a declared type; msgspec sorts those of a schema."""
    for text in DECLARED:
        if sorted(text.split(" | ")) == sorted(values):
            return text.split(" | ")
    return values
