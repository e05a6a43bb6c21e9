// Types of the pages that are no nouns of the API: values that several nouns share, and the states of the live feed.
export type JobStatus = "blocked" | "scheduled" | "ready" | "active" | "done" | "failed" | "cancelled";
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Series = (number | null)[];

// Those that pages reckon with, durations in seconds; all others are only shown.
export interface Settings {
  restart_limit: number;
  restart_window: number;
  restart_lifetime: number;
  [name: string]: string | number | boolean | object | null;
}

// A fact of the log. The field that names its noun says what changed.
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
