import assert from "node:assert/strict";
import { test } from "node:test";
import { nextOf, withQuery } from "./api.ts";
import { bytes, clock, coarse, duration, plain, rate, relative, setting, shortly, timeLeft } from "./format.ts";
import { layout } from "./graph.ts";
import { read, to } from "./route.ts";
import { agos, begun, bridged, last, perSecond } from "./series.ts";
import { bounds, marks, NARROWEST, placed } from "./timeline.ts";

test("a duration has at most two units and never more digits than help", () => {
  const said = [0, 0.0004, 0.0125, 0.9996, 3.21, 12.4, 59.6, 245, 3600, 7800, 86_400, 273_600].map(duration);
  assert.deepEqual(said, ["0 s", "0.4 ms", "13 ms", "1.0 s", "3.2 s", "12 s", "1 min", "4 min 5 s", "1 h", "2 h 10 min", "1 d", "3 d 4 h"]);
});

test("a moment is told from now, before and after", () => {
  assert.equal(relative(1000, 1400), "now");
  assert.equal(relative(0, 12_000), "12 s ago");
  assert.equal(relative(180_000, 0), "in 3 min");
  assert.deepEqual([59.9, 60, 3599, 3600, 90_000].map(coarse), ["59 s", "1 min", "59 min", "1 h", "1 d"]);
});

test("what waits takes as long as the pace of late says, else as the usual run does", () => {
  assert.equal(timeLeft({ pending: 120, eta: 5 }, 2), "1 min");
  assert.equal(timeLeft({ pending: 120, eta: 5 }, 0), "5.0 s");
  assert.deepEqual([timeLeft({ pending: 0, eta: 5 }, 2), timeLeft({ pending: 3, eta: 0 }, 0), timeLeft(undefined, 1)], ["–", "–", "–"]);
});

test("clocks, rates and sizes", () => {
  assert.deepEqual([-1, 7, 75, 11_045].map(clock), ["0:00", "0:07", "1:15", "3:04:05"]);
  assert.deepEqual([0, 0.05, 0.25, 9.94, 12.4, 1204].map(rate), ["0/s", "3.0/min", "0.25/s", "9.9/s", "12/s", "1,204/s"]);
  assert.deepEqual([12, 2048, 3_145_728].map(bytes), ["12 B", "2.0 KiB", "3.0 MiB"]);
});

test("an address says where one is, whatever a name holds", () => {
  const place = read(to("workers", "worker:a/b <i>%:0"));
  assert.deepEqual([place.page, place.which], ["workers", "worker:a/b <i>%:0"]);
  const jobs = read(to("jobs", null, { queue: "a&b", status: "", search: null }));
  assert.deepEqual([jobs.page, jobs.which, [...jobs.query]], ["jobs", null, [["queue", "a&b"]]]);
  assert.equal(read("").page, "overview");
  assert.equal(read("#/workers/%E0%A4%A").which, "%E0%A4%A");
});

test("a path leaves out what is not asked for, and a link names the next page", () => {
  assert.equal(withQuery("jobs", { status: "", queue: "a b", before: null, limit: 5 }), "jobs?queue=a%20b&limit=5");
  assert.equal(nextOf('</mounted/api/v1/jobs?limit=2&before=7>; rel="next"'), "jobs?limit=2&before=7");
  assert.equal(nextOf(null), null);
});

test("a figure holds for a few steps, then there is a gap", () => {
  assert.deepEqual(bridged([null, 2, null, null, null, 5], 2), [null, 2, 2, 2, null, 5]);
  assert.deepEqual(perSecond([4, null, 0], 2), [2, null, 0]);
  assert.equal(last([1, 3, null]), 3);
  assert.equal(last([null]), null);
  assert.deepEqual(agos(3, 2), [-6, -4, -2]);
  assert.equal(begun([[0, 0, 0, 0, 3, 0], [null, null, null, 1, null, null]], 2), 2);
  assert.equal(begun([[0, 0, 0, 0, 0, 3]], 4), 2);
  assert.equal(begun([[0, 0, 0]], 9), 0);
});

test("a span has its place between the first and now, and can always be seen", () => {
  const spans = [
    { from: 1000, until: 2000 },
    { from: 3000, until: null },
  ];
  const range = bounds(spans, 5000);
  assert.deepEqual(range, [1000, 5000]);
  assert.deepEqual(placed({ from: 2000, until: 3000 }, range, 5000), { left: 0.25, width: 0.25 });
  assert.deepEqual(placed({ from: 3000, until: null }, range, 5000), { left: 0.5, width: 0.5 });
  assert.equal(placed({ from: 5000, until: 5000 }, range, 5000).width, NARROWEST);
  assert.deepEqual(marks([0, 4000], 4), [0, 1000, 2000, 3000, 4000]);
  assert.ok(marks([0, 9e9]).length <= 16);
});

test("what is needed stands left of what needs it, also over two steps, and a circle hangs nobody", () => {
  const columns = (ids: number[], edges: [number, number][]): Record<number, number> =>
    Object.fromEntries(layout(ids, edges).map((spot) => [spot.id, spot.column]));
  assert.deepEqual(columns([1, 2, 3, 4], [[2, 1], [3, 2], [3, 1], [4, 1]]), { 1: 0, 2: 1, 3: 2, 4: 1 });
  assert.deepEqual(layout([7, 8], []).map((spot) => spot.row), [0, 1]);
  assert.equal(layout([1, 2], [[1, 2], [2, 1]]).length, 2);
});

test("of many things the first two are told, and how many more there are", () => {
  assert.deepEqual([[], ["a"], ["a", "b"], ["a", "b", "c", "d"]].map((texts) => shortly(texts)), ["", "a", "a; b", "a; b; and 2 more"]);
});

test("a setting is shown as it would be given, and pools by queue", () => {
  assert.deepEqual([null, "", 0, false, "info", {}, { tag: 2, scan: 1 }].map(setting), ["–", "–", "0", "false", "info", "–", "tag=2, scan=1"]);
});

test("what was written for a terminal is text, and of an overwritten line the last", () => {
  assert.equal(plain("\x1b[31mred\x1b[0m \x1b]0;title\x07text\r\nnext\x00"), "red text\nnext");
  assert.equal(plain("10 %\r50 %\r100 %\ndone"), "100 %\ndone");
  assert.equal(plain("a\tb\n\nc <b>"), "a\tb\n\nc <b>");
});
