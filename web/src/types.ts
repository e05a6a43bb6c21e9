// The shapes of the API that the pages read; docs/reference/openapi.json describes them.
export type JobStatus = "blocked" | "scheduled" | "ready" | "active" | "done" | "failed" | "cancelled";
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface Me {
  name: string;
  scopes: string[];
}

export interface Job {
  id: number;
  title: string;
  queue: string;
  kind: string | null;
  status: JobStatus;
  priority: number;
  payload: Json;
  parent: number | null;
  children: number[];
  after: number[];
  attempts: number;
  max_attempts: number;
  due_at: string | null;
  scheduled_for: string | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  result: Json;
  error: string | null;
  worker_id: string | null;
  run_id: string | null;
  note: string | null;
}

export interface Run {
  id: string;
  job_id: number;
  worker_id: string;
  attempt: number;
  status: string;
  verb: string;
  reason: string | null;
  error: string | null;
  note: string | null;
  claimed_at: string;
  ended_at: string;
}

export interface Output {
  run_id: string;
  is_live: boolean;
  size: number;
  offset: number;
  next: number;
  text: string;
}

export interface Graph {
  nodes: { id: number; title: string; queue: string; status: JobStatus }[];
  edges: [number, number][];
  is_whole: boolean;
}

export interface Queue {
  name: string;
  paused: boolean;
  paused_at: string | null;
  paused_by: string | null;
  pause_reason: string | null;
  max_depth: number | null;
  rate: string | null;
  concurrency: number | null;
  per_key: number | null;
  breaker: number | null;
  failures: number;
  fence: string | null;
  counts: Record<JobStatus, number>;
  oldest_ready_at: string | null;
}

export interface Slot {
  name: string;
  queue: string | null;
  crew: string;
  host: string | null;
  host_id: string;
  wanted: boolean;
  status: string;
  health: string | null;
  worker_id: string | null;
  restarts: number;
  lifetime_restarts: number;
  starts_in: number | null;
  failure_reason: string | null;
}

export interface Worker {
  id: string;
  name: string;
  hostname: string;
  pid: number | null;
  status: string;
  registered_at: string;
  last_heartbeat_at: string;
  current_job: number | null;
  slot: string | null;
  version: string | null;
  success_count: number;
  error_count: number;
  last_error_message: string | null;
}

export interface Death {
  died_at: string;
  reason: string;
  text: string | null;
  exit_code: number | null;
  signal: number | null;
  sent_by: string | null;
  job_id: number | null;
  worker_id: string;
  slot: string | null;
  began_at: string | null;
  usage: Json;
  last_frame: string | null;
  stderr_tail: string | null;
}

export interface Notice {
  noun: "host" | "slot" | "queue" | "failures" | "schedule" | "job" | "run";
  which: string;
  text: string;
  since: string | null;
}

export type Series = (number | null)[];

export interface Pace {
  step: number;
  finished: Series;
  failed: Series;
  pickup_p50: Series;
  pickup_p95: Series;
  run_p50: Series;
  run_p95: Series;
  rates: Record<string, number>;
  until: string;
}

export interface Orchestrator {
  id: number;
  status: string;
  crew: string;
  hostname: string;
  host_id: string;
  pid: number;
  version: string | null;
  started_at: string;
  last_reconcile_at: string | null;
}

export interface Crew {
  status: string;
  slots: Slot[];
  orchestrators: Orchestrator[];
  settings: Settings;
}

// Those that pages reckon with, durations in seconds; all others are only shown.
export interface Settings {
  restart_limit: number;
  restart_window: number;
  restart_lifetime: number;
  [name: string]: string | number | boolean | object | null;
}

export interface Source {
  name: string;
  queue: string;
  task: string;
  every: number;
  counts: Record<string, number>;
  added_count: number;
  success_count: number;
  error_count: number;
  last_error_at: string | null;
  last_error_message: string | null;
  repeated_count: number;
  last_fill_at: string | null;
  last_fill_error: string | null;
  next_fill_at: string | null;
}

export interface Schedule {
  name: string;
  cron: string;
  timezone: string;
  queue: string;
  declared: boolean;
  paused: boolean;
  pause_reason: string | null;
  next_at: string | null;
  last_at: string | null;
  last_job: number | null;
  last_status: string | null;
  error: string | null;
}

export interface TrackedWorker {
  id: string;
  version: string | null;
  last_heartbeat: string;
  success_count: number;
  error_count: number;
  last_error_message: string | null;
}

export interface Vectorizer {
  id: number;
  source_table: string | null;
  success_count: number;
  error_count: number;
  health: number | null;
  last_error_message: string | null;
  updated_at: string | null;
}

export interface Tracking {
  enabled: boolean;
  workers: number;
  live: number;
  dead: number;
  live_workers: TrackedWorker[];
  dead_workers: TrackedWorker[];
  vectorizers: Vectorizer[];
}

export interface Fact {
  id: string;
  topic: string;
  type: string;
  at: string;
  actor: string;
  [noun: string]: unknown;
}

// What the live feed says of a queue, of a slot or a worker nobody watches, and of the system.
export interface QueueState {
  queue_type: string | null;
  pending: number;
  running: number;
  completed: number;
  avg_time: number;
  eta: number;
}

export interface WorkerState {
  component: string;
  id: number | string;
  queue_type: string | null;
  status: string;
  pid: number | null;
  current_job: number | null;
  worker_id: string | null;
  name: string;
  since?: number; // when this page saw its job or its state change
}

export interface Health {
  status: "healthy" | "degraded" | "error";
  errors: string[];
}
