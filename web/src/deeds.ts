// What people can do, in the words of the dialogs that ask for it.
import { post, send } from "./api.ts";
import { scalable, type Place } from "./places.ts";
import type { Crew, Job, Queue } from "./types.ts";
import type { Deed } from "./ui.tsx";

export function jobDeeds(job: Job): Deed[] {
  const path = `jobs/${job.id}`;
  const nouns: Deed["nouns"] = ["job", "queue"];
  const name = `job ${job.id}`;
  const isFinal = ["done", "failed", "cancelled"].includes(job.status);
  const found: Deed[] = [];
  if (isFinal) {
    found.push({
      label: "Retry",
      title: `Run ${name} once more?`,
      about: "It starts anew, with all its attempts.",
      danger: job.status === "done",
      did: `${name} runs again`,
      nouns,
      run: () => post(`${path}/retry`),
    });
    return found;
  }
  found.push(
    {
      label: "Cancel",
      title: `Cancel ${name}?`,
      about: job.status === "active" ? "Its run is ended now, with all that it started." : "It will not run.",
      danger: true,
      did: `${name} is cancelled`,
      nouns,
      run: () => post(`${path}/cancel`),
    },
    {
      label: "Settle as done",
      title: `Settle ${name} as done?`,
      about: "You say that its work is done; nobody runs it any more. The event log keeps that it was you.",
      fields: [{ name: "reason", label: "Why", kind: "long", needed: true, hint: "kept as its result" }],
      danger: true,
      did: `${name} is done`,
      nouns,
      run: (said) => post(`${path}/done`, { result: { reason: said["reason"] }, force: true }),
    },
    {
      label: "Settle as failed",
      title: `Settle ${name} as failed?`,
      about: "It counts as failed for good. The event log keeps that it was you.",
      fields: [{ name: "error", label: "Why", kind: "long", needed: true }],
      danger: true,
      did: `${name} has failed`,
      nouns,
      run: (said) => post(`${path}/fail`, { error: said["error"], final: true, force: true }),
    },
  );
  return found;
}

// A claim by hand can be given back for its holder; one of a watched worker is ended by cancelling its job.
export function releaseDeed(job: Job): Deed {
  const token = parseInt((job.run_id ?? "run-0").slice(4), 36);
  return {
    label: "Release",
    title: `Release job ${job.id}?`,
    about: `${job.worker_id} loses it, and another may take it at once.`,
    fields: [{ name: "note", label: "A word for the next holder", kind: "long" }],
    danger: true,
    did: `job ${job.id} is released`,
    nouns: ["job", "queue", "worker"],
    run: (said) => post(`jobs/${job.id}/claim/release`, { token, note: said["note"] || null }),
  };
}

export function pauseDeed(queue: string | null): Deed {
  const name = queue ?? "everything";
  return {
    label: queue ? "Pause" : "Pause all",
    title: `Pause ${name}?`,
    about: "Nothing new starts. What runs goes on; workers stay alive.",
    fields: [{ name: "reason", label: "Why", hint: "shown to whoever asks why nothing runs" }],
    did: `${name} is paused`,
    nouns: ["queue", "worker"],
    run: (said) => post("queues/pause", { queue, reason: said["reason"] || null }),
  };
}

export function resumeDeed(queue: string | null): Deed {
  return {
    label: queue ? "Resume" : "Resume all",
    title: "",
    did: `${queue ?? "everything"} is resumed`,
    nouns: ["queue", "worker"],
    run: () => post("queues/resume", { queue }),
  };
}

// A count is that of one crew on one host: where there are several such places, one is chosen.
export function scaleDeed(queue: string, crew: Crew): Deed {
  const places = new Map(scalable(queue, crew).map((place) => [`${place.crew} on ${place.host}`, place]));
  const [first = ""] = places.keys();
  const countAt = (chosen: string): string => String(places.get(chosen)?.wanted ?? 0);
  const where = { name: "place", label: "Crew", choices: [...places.keys()], value: first, fills: (chosen: string) => ({ count: countAt(chosen) }) };
  return {
    label: "Scale",
    title: `How many workers should ${queue} have?`,
    about: `${places.size === 1 ? `Crew ${first}. ` : ""}A worker that is no longer wanted finishes what it holds first.`,
    fields: [...(places.size > 1 ? [where] : []), { name: "count", label: "Workers", kind: "number", value: countAt(first), needed: true }],
    did: `${queue} is scaled`,
    nouns: ["queue", "worker"],
    run: (said) => {
      const place = places.get(said["place"] ?? first);
      return post(`queues/${encodeURIComponent(queue)}/scale`, { count: Number(said["count"]), ...(place ? { crew: place.crew, host: place.hostId } : {}) });
    },
  };
}

export function drainDeed(place: Place): Deed {
  const name = `crew ${place.crew} on ${place.host}`;
  return {
    label: "Drain",
    title: `Drain ${name}?`,
    about: "It finishes what it holds, however long that takes, and ends. An API that it runs, and its dashboard, end at once.",
    danger: true,
    did: `${name} drains`,
    nouns: ["worker", "health"],
    run: () => post("orchestrator/drain", { crew: place.crew, host: place.hostId }),
  };
}

export function limitsDeed(queue: Queue): Deed {
  const text = (value: number | string | null): string => (value === null ? "" : String(value));
  const whole = (value: string | undefined): number | null => (value ? Number(value) : null);
  return {
    label: "Limits",
    verb: "Set limits",
    title: `Limits of ${queue.name}`,
    about: "An empty field means no limit.",
    fields: [
      { name: "max_depth", label: "Most that may wait", kind: "number", value: text(queue.max_depth) },
      { name: "rate", label: "Most that may start", value: text(queue.rate), hint: "such as 10/s, 300/m or 5/h" },
      { name: "concurrency", label: "Most that may run at once", kind: "number", value: text(queue.concurrency) },
      { name: "per_key", label: "Most of one key at once", kind: "number", value: text(queue.per_key) },
      { name: "breaker", label: "Failures in a row that pause it", kind: "number", value: text(queue.breaker) },
      { name: "fence", label: "When its host loses the store", choices: ["", "tell", "end"], value: text(queue.fence) },
    ],
    did: `the limits of ${queue.name} are set`,
    nouns: ["queue"],
    run: (said) =>
      send("PATCH", `queues/${encodeURIComponent(queue.name)}`, {
        max_depth: whole(said["max_depth"]),
        rate: said["rate"] || null,
        concurrency: whole(said["concurrency"]),
        per_key: whole(said["per_key"]),
        breaker: whole(said["breaker"]),
        fence: said["fence"] || null,
      }),
  };
}

export function resetDeed(slot: string): Deed {
  return {
    label: "Reset",
    title: `Reset ${slot}?`,
    about: "Its restarts are forgotten, and it is filled again at once.",
    danger: true,
    did: `${slot} starts again`,
    nouns: ["worker"],
    run: () => post(`slots/${encodeURIComponent(slot)}/reset`),
  };
}

export function stopDeed(worker: string): Deed {
  return {
    label: "Stop worker",
    title: `Stop ${worker}?`,
    about: "It finishes what it holds and leaves; its slot is filled again.",
    danger: true,
    did: `${worker} was asked to stop`,
    nouns: ["worker"],
    run: () => post(`workers/${worker}/stop`),
  };
}
