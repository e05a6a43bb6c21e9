import assert from "node:assert/strict";
import { test } from "node:test";
import { lineOf } from "./facts.ts";

const KNOWN = { id: "7", topic: "queue:jobs", type: "job_update", at: "2026-01-01T00:00:00Z", actor: "ada@http" };

test("a move of a job is told with where it came from and where it went, and its queue", () => {
  const line = lineOf({ ...KNOWN, job: { id: 4, verb: "claim", queue: "tag", was: "ready", status: "active", worker_id: "worker-a", error: null } }, 2);
  assert.deepEqual(line, { key: "7 2", at: KNOWN.at, actor: "ada@http", noun: "job", verb: "claim", which: "4", queue: "tag", text: "ready → active, worker_id worker-a" });
});

test("a pause of everything names everything, one of a queue that queue", () => {
  const line = lineOf({ ...KNOWN, queue: { queue_type: null, verb: "pause", reason: "disk" } }, 0);
  assert.deepEqual([line.noun, line.verb, line.which, line.queue, line.text], ["queue", "pause", "everything", null, "reason disk"]);
  assert.equal(lineOf({ ...KNOWN, queue: { queue_type: "tag", verb: "pause" } }, 0).which, "tag");
});

test("what is empty is left out, what has parts is told whole, and one state alone needs no arrow", () => {
  const line = lineOf({ ...KNOWN, worker: { id: "worker-a", verb: "report", status: "busy", note: "", told: { a: [1] }, count: 0 } }, 0);
  assert.equal(line.text, 'busy, told {"a":[1]}, count 0');
});

test("a fact of no known kind is still told, by its type", () => {
  const line = lineOf({ ...KNOWN, type: "news" }, 0);
  assert.deepEqual([line.noun, line.verb, line.which, line.text], ["health", "news", "everything", ""]);
});
