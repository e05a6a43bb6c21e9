import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { drainDeed, releaseDeed, scaleDeed } from "./deeds.ts";
import { hostRows } from "./places.ts";
import { crewOf, jobWith, orchestratorAt, slotAt } from "./samples.ts";

// What is sent instead of being sent: each path with its body.
function sent(t: TestContext): [path: string, body: unknown][] {
  const found: [string, unknown][] = [];
  t.mock.method(globalThis, "fetch", (path: string, init: RequestInit) => {
    found.push([path, JSON.parse(String(init.body))]);
    return Promise.resolve(new Response("{}"));
  });
  return found;
}

test("a queue on one host is scaled there, from as many as it has, and nobody is asked where", async (t) => {
  const requests = sent(t);
  const deed = scaleDeed("tag", crewOf([orchestratorAt("main", "far")], [slotAt("main", "far", 0), slotAt("main", "far", 1, { wanted: false })]));
  assert.deepEqual(
    deed.fields?.map((field) => [field.name, field.value]),
    [["count", "1"]],
  );
  await deed.run({ count: "4" });
  assert.deepEqual(requests, [["api/v1/queues/tag/scale", { count: 4, crew: "main", host: "far" }]]);
});

test("with several places one is chosen, and the count is that of the place", async (t) => {
  const requests = sent(t);
  const slots = [slotAt("main", "alpha", 0), slotAt("main", "alpha", 1), slotAt("main", "beta", 2)];
  const deed = scaleDeed("tag", crewOf([orchestratorAt("main", "alpha"), orchestratorAt("main", "beta", 2)], slots));
  const [place, count] = deed.fields ?? [];
  assert.deepEqual([place?.choices, place?.value, count?.value], [["main on alpha", "main on beta"], "main on alpha", "2"]);
  assert.deepEqual(place?.fills?.("main on beta"), { count: "1" });
  await deed.run({ place: "main on beta", count: "3" });
  assert.deepEqual(requests, [["api/v1/queues/tag/scale", { count: 3, crew: "main", host: "beta" }]]);
});

test("a queue that no crew serves yet is scaled where the server is", async (t) => {
  const requests = sent(t);
  await scaleDeed("a/b", crewOf([], [])).run({ count: "1" });
  assert.deepEqual(requests, [["api/v1/queues/a%2Fb/scale", { count: 1 }]]);
});

test("a crew is drained on the host of its row, also when another host has that name", async (t) => {
  const requests = sent(t);
  const rows = hostRows(crewOf([orchestratorAt("main", "a/1"), orchestratorAt("main", "a/2", 2)], []), []);
  for (const row of rows) await drainDeed(row).run({});
  assert.deepEqual(
    requests.map(([, body]) => body),
    [
      { crew: "main", host: "a/1" },
      { crew: "main", host: "a/2" },
    ],
  );
});

test("a claim is released by its token, which its run's name holds", async (t) => {
  const requests = sent(t);
  await releaseDeed(jobWith({ id: 9, run_id: "run-1z", worker_id: "ada" })).run({ note: "" });
  await releaseDeed(jobWith({ id: 9, run_id: "run-10", worker_id: "ada" })).run({ note: "half" });
  assert.deepEqual(requests, [
    ["api/v1/jobs/9/claim/release", { token: 71, note: null }],
    ["api/v1/jobs/9/claim/release", { token: 36, note: "half" }],
  ]);
});
