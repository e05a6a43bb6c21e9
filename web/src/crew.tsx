// The crew as a grid: each slot, and each worker that nobody watches, with what it does now and for how long.
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { moment } from "./format.ts";
import { useFeed, useLook } from "./hooks.ts";
import { to } from "./route.ts";
import type { Job, WorkerState } from "./types.ts";
import { Shape, Since, toneOf } from "./ui.tsx";
import { Grid } from "./virtual.tsx";

const TITLES_UP_TO = 200; // beyond, titles would be more to read than the states themselves

export function inOrder(workers: Iterable<WorkerState>): WorkerState[] {
  return [...workers].sort((a, b) => {
    const [queue, other] = [a.queue_type ?? "~", b.queue_type ?? "~"];
    if (queue !== other) return queue < other ? -1 : 1;
    if (typeof a.id === "number" && typeof b.id === "number") return a.id - b.id;
    return a.component < b.component ? -1 : a.component > b.component ? 1 : 0;
  });
}

export function shortName(worker: WorkerState): string {
  return typeof worker.id === "number" ? `${worker.queue_type ?? "-"} ${worker.id}` : worker.name;
}

export function useActive(): Map<number, Job> {
  const { workers } = useFeed();
  const path = workers.size <= TITLES_UP_TO ? `jobs?status=active&limit=${TITLES_UP_TO}` : null;
  const { data } = useLook<Job[]>(path, ["worker"], 1500);
  return useMemo(() => new Map((data ?? []).map((job) => [job.id, job])), [data]);
}

function Cell({ worker, job }: { worker: WorkerState; job: Job | undefined }): JSX.Element {
  const began = moment(job?.started_at ?? null) ?? worker.since ?? null;
  const doing = worker.current_job === null ? worker.status : (job?.title ?? `job ${worker.current_job}`);
  return (
    <a
      key={worker.component}
      href={to("workers", worker.worker_id !== null && typeof worker.id === "string" ? worker.worker_id : worker.component)}
      class={`cell ${toneOf(worker.status)}`}
      title={`${worker.component}: ${worker.status}${worker.current_job === null ? "" : `, job ${worker.current_job} ${job?.title ?? ""}`}`}
    >
      <span class="name">
        <Shape state={worker.status} />
        {shortName(worker)}
      </span>
      <span class="doing">
        <span>{doing}</span>
        {worker.current_job === null ? null : <Since at={began} />}
      </span>
    </a>
  );
}

export function CrewGrid({ workers, room }: { workers: WorkerState[]; room: number }): JSX.Element {
  const active = useActive();
  return (
    <Grid
      items={workers}
      keyOf={(worker) => worker.component}
      draw={(worker) => <Cell key={worker.component} worker={worker} job={active.get(worker.current_job ?? -1)} />}
      width={172}
      height={58}
      room={room}
      label="Slots"
    />
  );
}
