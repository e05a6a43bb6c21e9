import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Feed } from "./live.ts";

// What a browser calls an EventSource, as far as the feed uses it.
class Stream extends EventTarget {
  onopen: () => void = () => undefined;
  onmessage: (event: { data: string }) => void = () => undefined;
  onerror: () => void = () => undefined;
  isClosed = false;
  close(): void {
    this.isClosed = true;
  }
  say(type: string, topic: string, more: object = {}): void {
    this.onmessage({ data: JSON.stringify({ type, topic, timestamp: Date.now(), ...more }) });
  }
}

interface Watched {
  feed: Feed;
  streams: Stream[];
  answer: (status: number, detail: string) => void;
  pass: (seconds: number) => Promise<void>;
}

// A feed whose server, time and streams are in the test's hands; its first stream is open.
async function watched(t: TestContext): Promise<Watched> {
  t.mock.timers.enable({ apis: ["setInterval", "setTimeout", "Date"] });
  const streams: Stream[] = [];
  let answer = (): Response => new Response('{"name": "ada", "scopes": ["read"]}');
  t.mock.method(globalThis, "fetch", () => Promise.resolve(answer()));
  class Opened extends Stream {
    constructor() {
      super();
      streams.push(this);
    }
  }
  const before = Object.getOwnPropertyDescriptor(globalThis, "EventSource");
  Object.defineProperty(globalThis, "EventSource", { value: Opened, configurable: true, writable: true });
  t.after(() => (before ? Object.defineProperty(globalThis, "EventSource", before) : Reflect.deleteProperty(globalThis, "EventSource")));
  const pass = async (seconds: number): Promise<void> => {
    t.mock.timers.tick(seconds * 1000);
    for (let n = 0; n < 5; n += 1) await setImmediate();
  };
  const feed = new Feed();
  feed.start();
  await pass(0);
  streams[0]?.onopen();
  return { feed, streams, pass, answer: (status, detail) => (answer = () => new Response(JSON.stringify({ detail }), { status })) };
}

function stateOf(name: string, status: string, job: number | null = null): object {
  return { worker: { component: name, id: 0, queue_type: "tag", status, pid: 1, current_job: job, worker_id: "worker-a", name } };
}

const COUNTS = { pending: 1, running: 0, completed: 0, avg_time: 0, eta: 0 };

test("what is said of queues, workers and health is kept, the last word of each", async (t) => {
  const { feed, streams } = await watched(t);
  streams[0]?.say("snapshot", "queue:tag:status", { queue: { queue_type: "tag", ...COUNTS } });
  streams[0]?.say("snapshot", "queue:status", { queue: { queue_type: null, ...COUNTS, pending: 9 } });
  streams[0]?.say("snapshot", "system:health", { health: { status: "error", errors: ["no disk"] } });
  streams[0]?.say("queue_update", "queue:tag:status", { queue: { queue_type: "tag", ...COUNTS, pending: 4 } });
  assert.deepEqual([feed.queues.get("tag")?.pending, feed.all?.pending, feed.health?.errors], [4, 9, ["no disk"]]);
});

test("a new connection begins anew: what its snapshot does not name is gone", async (t) => {
  const { feed, streams, pass } = await watched(t);
  streams[0]?.say("snapshot", "worker:tag:0:status", stateOf("worker:tag:0", "idle"));
  streams[0]?.say("snapshot", "worker:tag:1:status", stateOf("worker:tag:1", "idle"));
  streams[0]?.onerror();
  assert.deepEqual([feed.connection, feed.workers.size], ["lost", 2], "until then all is shown as it was");
  await pass(1);
  streams[1]?.onopen();
  streams[1]?.say("snapshot", "worker:tag:1:status", stateOf("worker:tag:1", "idle"));
  assert.deepEqual([feed.connection, [...feed.workers.keys()]], ["open", ["worker:tag:1"]]);
});

test("a resync clears what was known, and lets pages look at jobs again", async (t) => {
  const { feed, streams } = await watched(t);
  streams[0]?.say("snapshot", "queue:tag:status", { queue: { queue_type: "tag", ...COUNTS } });
  streams[0]?.say("snapshot", "worker:tag:0:status", stateOf("worker:tag:0", "idle"));
  const before = feed.changes.job;
  streams[0]?.say("resync", "*");
  assert.deepEqual([feed.queues.size, feed.workers.size], [0, 0]);
  assert.ok(feed.changes.job > before);
});

test("a worker that ended leaves", async (t) => {
  const { feed, streams } = await watched(t);
  for (const [n, status] of ["stopped", "dead", "gone"].entries()) {
    const name = `worker:tag:${n}`;
    streams[0]?.say("worker_update", `${name}:status`, stateOf(name, "busy", 7));
    assert.equal(feed.workers.size, 1);
    streams[0]?.say("worker_update", `${name}:status`, stateOf(name, status));
    assert.equal(feed.workers.size, 0, status);
  }
});

test("a worker is at a job since its feed first said so, and of a snapshot nobody knows since when", async (t) => {
  const { feed, streams, pass } = await watched(t);
  const since = (): number | undefined => feed.workers.get("worker:tag:0")?.since;
  streams[0]?.say("snapshot", "worker:tag:0:status", stateOf("worker:tag:0", "busy", 7));
  assert.equal(since(), undefined);
  await pass(1);
  streams[0]?.say("worker_update", "worker:tag:0:status", stateOf("worker:tag:0", "busy", 8));
  assert.equal(since(), 1000);
  await pass(1);
  streams[0]?.say("worker_update", "worker:tag:0:status", stateOf("worker:tag:0", "busy", 8));
  assert.equal(since(), 1000);
});

test("a server that says it is alive is kept, one that is silent for long is asked anew", async (t) => {
  const { feed, streams, pass } = await watched(t);
  for (let n = 0; n < 8; n += 1) {
    await pass(15);
    streams[0]?.dispatchEvent(new Event("alive"));
  }
  assert.deepEqual([streams.length, feed.connection], [1, "open"]);
  for (let n = 0; n < 9; n += 1) await pass(5);
  assert.deepEqual([streams.length, streams[0]?.isClosed, feed.connection], [2, true, "lost"]);
});

test("listeners hear of many changes at once, and no more once they left", async (t) => {
  const { feed, pass } = await watched(t);
  await pass(1);
  let heard = 0;
  const leave = feed.hear(() => (heard += 1));
  for (let n = 0; n < 100; n += 1) feed.touch("job");
  await pass(1);
  assert.equal(heard, 1);
  leave();
  feed.touch("job");
  await pass(1);
  assert.equal(heard, 1);
});

test("a store that is away is trouble until every question about it is answered or given up", async (t) => {
  const { feed, streams, answer, pass } = await watched(t);
  assert.equal(feed.trouble, null);
  feed.storeSaid("jobs", "no such file");
  feed.storeSaid("queues", "no such file");
  feed.storeSaid("jobs", null);
  assert.equal(feed.trouble, "no such file");
  feed.storeSaid("queues", null);
  assert.equal(feed.trouble, null);
  answer(503, "the disk is away");
  streams[0]?.onerror();
  await pass(1);
  assert.deepEqual([feed.connection, feed.trouble], ["lost", "the disk is away"], "even if it cannot say who asks");
});

test("a session that is over closes the page", async (t) => {
  const { feed, streams, answer, pass } = await watched(t);
  answer(401, "who are you?");
  streams[0]?.onerror();
  await pass(1);
  assert.deepEqual([feed.connection, feed.trouble], ["closed", null]);
});

test("whether all has been told is known by its last word, anew after each connection", async (t) => {
  const { feed, streams } = await watched(t);
  streams[0]?.say("snapshot", "worker:tag:0:status", stateOf("worker:tag:0", "idle"));
  assert.equal(feed.isWhole, false);
  streams[0]?.say("snapshot", "system:health", { health: { status: "healthy", errors: [] } });
  assert.equal(feed.isWhole, true);
  streams[0]?.say("resync", "*");
  assert.equal(feed.isWhole, false);
});
