// A worker in JavaScript: it speaks frames (docs/reference/frames.md), and measures texts.
//
//   rota orchestrator start --pool texts=2 --program texts='node worker.mjs'
//   rota add Hello --queue texts --kind measure --payload '{"text": "Hello"}'
import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

// What it can do: each function takes a payload and returns a result, or throws.
const kinds = {
  async measure({ text, seconds = 0 }) {
    await sleep(seconds * 1000);
    return { length: text.length };
  },
};

const pipe = new Socket({ fd: Number(process.env.ROTA_FRAME_FD) });
const waiting = []; // jobs that are not begun
let current = null; // the job in hand
let stopping = false;

const say = (kind, body) => pipe.write(`${kind}|${JSON.stringify(body)}\n`);

function live() {
  const status = stopping ? "stopping" : "healthy";
  say("HEALTH", { component_id: process.env.ROTA_SLOT, status, current_job: current?.id ?? null });
}

async function outcome(job) {
  try {
    const result = await kinds[job.kind](JSON.parse(job.payload ?? "{}"));
    return { outcome: "done", result: JSON.stringify(result ?? null) };
  } catch (problem) {
    return { outcome: "failed", error: String(problem), again: true, reason: null };
  }
}

async function work() {
  while (current === null && waiting.length > 0) {
    const job = (current = waiting.shift());
    const end = await outcome(job);
    current = null;
    say("DONE", { job: job.id, token: job.token, ...end });
  }
  leave();
}

function leave() {
  if (stopping && current === null) pipe.end(() => process.exit(0));
}

const told = {
  RUN({ jobs }) {
    waiting.push(...jobs);
    work();
  },
  RECALL() {
    say("RETURNED", { tokens: waiting.splice(0).map((job) => job.token) });
  },
  STOP({ now }) {
    stopping = true;
    if (now && current !== null) {
      say("DONE", { job: current.id, token: current.token, outcome: "released", note: "stopped" });
      current = null;
    }
    leave();
  },
};

let rest = "";
pipe.setEncoding("utf8");
pipe.on("data", (data) => {
  const lines = (rest + data).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    const bar = line.indexOf("|");
    told[line.slice(0, bar)]?.(JSON.parse(line.slice(bar + 1)));
  }
});
pipe.on("close", () => process.exit(82)); // the orchestrator is gone: what is in hand runs again elsewhere
pipe.on("error", () => process.exit(82));
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => told.STOP({ now: false }));

say("HELLO", { component_id: process.env.ROTA_SLOT, protocol: 1, tasks: Object.keys(kinds) });
live();
setInterval(live, 3000);
