// The nouns of the API that the pages read. Written by `./dev docs`, as is openapi.json.
import type { Json, JobStatus, Series, Settings } from "./states.ts";

export type * from "./states.ts";

export interface Me {
  id: string;
  name: string;
  scopes: ("admin" | "enqueue" | "read" | "work")[];
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
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  result: Json;
  error: string | null;
  worker_id: string | null;
  run_id: string | null;
  note: string | null;
  scheduled_for: string | null;
}

export interface Run {
  id: string;
  job_id: number;
  worker_id: string;
  token: number;
  attempt: number;
  status: "completed" | "expired" | "failed" | "released";
  verb: string;
  reason: string | null;
  error: string | null;
  note: string | null;
  claimed_at: string;
  ended_at: string;
  renewed_count: number;
  transcript_path: string | null;
  stderr_path: string | null;
}

export interface Output {
  job_id: number;
  run_id: string;
  stream: "stderr" | "transcript";
  host: string | null;
  is_live: boolean;
  size: number;
  offset: number;
  next: number;
  text: string;
}

export interface Node {
  id: number;
  title: string;
  queue: string;
  status: JobStatus;
}

export interface Graph {
  nodes: Node[];
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
  fence: "end" | "tell" | null;
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
  status: "backoff" | "empty" | "failed" | "starting" | "stopping" | "up";
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
  status: "busy" | "dead" | "idle" | "late" | "paused" | "starting" | "stopped" | "stopping";
  registered_at: string;
  last_heartbeat_at: string;
  heartbeat_interval: number | null;
  current_job: number | null;
  slot: string | null;
  version: string | null;
  heartbeat_count: number;
  success_count: number;
  error_count: number;
  last_error_at: string | null;
  last_error_message: string | null;
  metadata: Record<string, Json>;
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
  noun: "failures" | "host" | "job" | "queue" | "run" | "schedule" | "slot";
  which: string;
  text: string;
  since: string | null;
}

export interface Throughput {
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
  status: "killed" | "late" | "running" | "starting" | "stopped" | "stopping";
  crew: string;
  hostname: string;
  host_id: string;
  pid: number;
  version: string | null;
  started_at: string;
  last_reconcile_at: string | null;
}

export interface Crew {
  status: "running" | "starting" | "stopped" | "stopping";
  pid: number | null;
  host: string | null;
  started_at: string | null;
  last_reconcile_at: string | null;
  pools: Record<string, number>;
  slots: Slot[];
  orchestrators: Orchestrator[];
  settings: Settings;
}

export interface Source {
  name: string;
  queue: string;
  task: string;
  every: number;
  low: number;
  batch: number;
  repeats: number | null;
  counts: Record<string, number>;
  added_count: number;
  success_count: number;
  error_count: number;
  last_success_at: string | null;
  last_success_worker: string | null;
  last_error_at: string | null;
  last_error_message: string | null;
  last_error_worker: string | null;
  repeated_count: number;
  last_repeated_key: string | null;
  filler: number;
  filler_status: JobStatus | null;
  fill_count: number;
  last_fill_at: string | null;
  last_fill_error: string | null;
  next_fill_at: string | null;
}

export interface Schedule {
  name: string;
  cron: string;
  timezone: string;
  missed: "all" | "once" | "skip";
  queue: string;
  kind: string | null;
  payload: Json;
  priority: number;
  max_attempts: number | null;
  timeout: number | null;
  declared: boolean;
  paused: boolean;
  paused_at: string | null;
  pause_reason: string | null;
  next_at: string | null;
  last_at: string | null;
  fired_at: string | null;
  fired_count: number;
  last_job: number | null;
  last_status: JobStatus | null;
  error: string | null;
}

export interface TrackedWorker {
  id: string;
  version: string | null;
  started: string;
  expected_heartbeat_interval: number;
  last_heartbeat: string;
  heartbeat_count: number;
  success_count: number;
  error_count: number;
  last_error_at: string | null;
  last_error_message: string | null;
}

export interface Vectorizer {
  id: number;
  source_table: string | null;
  success_count: number;
  error_count: number;
  health: number | null;
  last_success_at: string | null;
  last_error_at: string | null;
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
