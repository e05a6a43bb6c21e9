// Facts of the event log as lines that people read.
import type { Fact } from "./types.ts";

const NOUNS = ["job", "queue", "worker", "source", "schedule", "health"];
const TOLD_APART = new Set(["id", "verb", "queue_type", "queue", "was", "status"]);

export interface Line {
  key: string;
  at: string;
  actor: string;
  noun: string;
  verb: string;
  which: string;
  queue: string | null;
  text: string;
}

// A fact as one line: what happened to what, and the rest of what is known.
export function lineOf(fact: Fact, place: number): Line {
  const noun = NOUNS.find((each) => fact[each] !== undefined) ?? "health";
  const body = (fact[noun] ?? {}) as Record<string, unknown>;
  const said = (name: string): string | null => (typeof body[name] === "string" || typeof body[name] === "number" ? String(body[name]) : null);
  const moved = said("was") !== null || said("status") !== null ? [said("was"), said("status")].filter((each) => each !== null).join(" → ") : null;
  const rest = Object.entries(body)
    .filter(([name, value]) => !TOLD_APART.has(name) && value !== null && value !== "")
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  return {
    key: `${fact.id} ${place}`,
    at: fact.at,
    actor: fact.actor,
    noun,
    verb: said("verb") ?? fact.type,
    which: said("id") ?? said("queue_type") ?? "everything",
    queue: noun === "job" ? said("queue") : null,
    text: [moved, ...rest].filter((each) => each !== null).join(", "),
  };
}
