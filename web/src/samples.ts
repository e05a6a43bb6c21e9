// What the API might say, for unit tests: a name for each thing, and the rest as it is at most times.
import type { Crew, Job, Orchestrator, Slot } from "./types.ts";

export function slotAt(crew: string, host: string, n: number, more: Partial<Slot> = {}): Slot {
  return {
    name: `worker:tag:${n}`,
    queue: "tag",
    crew,
    host: host.split("/")[0] ?? host,
    host_id: host,
    wanted: true,
    status: "up",
    health: "healthy",
    worker_id: `worker-${n}`,
    restarts: 0,
    lifetime_restarts: 0,
    starts_in: null,
    failure_reason: null,
    ...more,
  };
}

export function orchestratorAt(crew: string, host: string, id = 1): Orchestrator {
  const hostname = host.split("/")[0] ?? host;
  return { id, status: "running", crew, hostname, host_id: host, pid: 7, version: null, started_at: "2026-01-01T00:00:00Z", last_reconcile_at: null };
}

export function crewOf(orchestrators: Orchestrator[], slots: Slot[]): Crew {
  const here = { pid: 7, host: "studio", started_at: null, last_reconcile_at: null, pools: {} };
  return { status: "running", ...here, orchestrators, slots, settings: { restart_limit: 5, restart_window: 300, restart_lifetime: 20 } };
}

export function jobWith(more: Partial<Job>): Job {
  const times = { due_at: null, scheduled_for: null, created_at: "2026-01-01T00:00:00Z", started_at: null, finished_at: null };
  const none = { payload: null, parent: null, children: [], after: [], result: null, error: null, worker_id: null, run_id: null, note: null };
  return { id: 1, title: "A", queue: "tag", kind: null, status: "ready", priority: 0, attempts: 0, max_attempts: 3, ...times, ...none, ...more };
}
