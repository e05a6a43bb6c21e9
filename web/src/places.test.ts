import assert from "node:assert/strict";
import { test } from "node:test";
import { hostRows, scalable } from "./places.ts";
import { crewOf, orchestratorAt, slotAt } from "./samples.ts";

test("a host has a row for each crew, with its orchestrator and the slots that are wanted", () => {
  const slots = [slotAt("main", "alpha", 0), slotAt("main", "alpha", 1, { status: "backoff" }), slotAt("main", "alpha", 2, { wanted: false })];
  const rows = hostRows(crewOf([orchestratorAt("main", "alpha"), orchestratorAt("night", "alpha", 2)], slots), []);
  assert.deepEqual(
    rows.map((row) => [row.host, row.crew, row.up, row.wanted, row.orchestrator?.id]),
    [
      ["alpha", "main", 1, 2, 1],
      ["alpha", "night", 0, 0, 2],
    ],
  );
});

test("slots that a crew left behind are a row without an orchestrator, those of an unknown host are none", () => {
  const rows = hostRows(crewOf([], [slotAt("main", "gone", 0, { status: "empty" }), slotAt("main", "x", 1, { host: null })]), []);
  assert.deepEqual(
    rows.map((row) => [row.host, row.orchestrator, row.up, row.wanted]),
    [["gone", null, 0, 1]],
  );
});

test("trouble of a host stands at the crew that has it", () => {
  const crew = crewOf([orchestratorAt("main", "alpha"), orchestratorAt("night", "alpha", 2), orchestratorAt("main", "beta", 3)], []);
  const text = "crew main has not renewed its lease in time";
  const rows = hostRows(crew, [
    { noun: "host", which: "alpha", text, since: null },
    { noun: "slot", which: "beta", text, since: null },
  ]);
  assert.deepEqual(
    rows.map((row) => row.trouble),
    [text, null, null],
  );
});

test("two hosts of one name are two rows, told apart by their ids", () => {
  const [one, other] = ["alpha/4026531836", "alpha/4026532001"];
  const crew = crewOf([orchestratorAt("main", one), orchestratorAt("main", other, 2)], [slotAt("main", other, 0)]);
  assert.deepEqual(
    hostRows(crew, []).map((row) => [row.host, row.hostId, row.wanted]),
    [
      ["alpha (alpha/4026531836)", one, 0],
      ["alpha (alpha/4026532001)", other, 1],
    ],
  );
});

test("a queue is scaled where an orchestrator lives, the place with most of its workers first", () => {
  const slots = [slotAt("main", "alpha", 0), slotAt("main", "beta", 1), slotAt("main", "beta", 2), slotAt("main", "gone", 3), slotAt("main", "alpha", 0, { queue: "scan" })];
  const crew = crewOf([orchestratorAt("main", "alpha"), orchestratorAt("main", "beta", 2), orchestratorAt("night", "alpha", 3)], slots);
  assert.deepEqual(
    scalable("tag", crew).map((place) => [place.crew, place.host, place.wanted]),
    [
      ["main", "beta", 2],
      ["main", "alpha", 1],
      ["night", "alpha", 0],
    ],
  );
  assert.deepEqual(
    scalable("tag", { ...crew, orchestrators: [] }).map((place) => place.host),
    ["beta", "alpha", "gone"],
  );
});
