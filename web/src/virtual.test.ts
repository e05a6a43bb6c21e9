import assert from "node:assert/strict";
import { test } from "node:test";
import { inSight } from "./virtual.tsx";

test("of ten thousand rows only those in sight are drawn, and the room of the others is kept", () => {
  const sight = inSight(10_000, 50, 25_000, 500);
  assert.deepEqual([sight.first, sight.last], [496, 514]);
  assert.equal(sight.before + (sight.last - sight.first) * 50 + sight.after, 10_000 * 50);
});

test("at both ends, and of few rows, all that is there is drawn", () => {
  assert.deepEqual(inSight(3, 50, 0, 500), { first: 0, last: 3, before: 0, after: 0 });
  assert.equal(inSight(100, 50, 9e9, 500).after, 0);
  assert.deepEqual(inSight(0, 50, 0, 500), { first: 0, last: 0, before: 0, after: 0 });
});
