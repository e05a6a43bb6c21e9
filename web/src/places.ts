// Where crews are: one place is a crew on a host. Hosts are told apart by their ids, because two may have one name.
import type { Crew, Notice, Orchestrator } from "./types.ts";

export interface Place {
  host: string; // as people call it: its name, and where that is not enough some of its id
  hostId: string;
  crew: string;
  orchestrator: Orchestrator | null;
  up: number;
  wanted: number;
  trouble: string | null;
}

// One row per host and crew: those whose orchestrator lives, and those that left slots behind.
export function hostRows(crew: Crew, notices: Notice[]): Place[] {
  const places = new Map<string, Place & { name: string }>();
  const place = (id: string, name: string, of: string): Place => {
    const key = `${id} ${of}`;
    const made = places.get(key) ?? { name, host: name, hostId: id, crew: of, orchestrator: null, up: 0, wanted: 0, trouble: null };
    places.set(key, made);
    return made;
  };
  for (const each of crew.orchestrators) place(each.host_id, each.hostname, each.crew).orchestrator = each;
  for (const slot of crew.slots) {
    if (!slot.wanted || slot.host === null) continue;
    const one = place(slot.host_id, slot.host, slot.crew);
    one.wanted += 1;
    one.up += Number(slot.status === "up");
  }
  const rows = [...places.values()];
  for (const notice of notices.filter((each) => each.noun === "host")) {
    for (const row of rows) if (row.name === notice.which && notice.text.includes(`crew ${row.crew} `)) row.trouble = notice.text;
  }
  for (const row of rows) if (rows.some((other) => other.name === row.name && other.hostId !== row.hostId)) row.host = `${row.name} (${short(row.hostId)})`;
  return rows.map(({ name: _, ...row }) => row).sort((a, b) => (a.host + a.crew < b.host + b.crew ? -1 : 1));
}

// An id is that of a boot and of a container within it; of the first, a few letters tell enough.
function short(id: string): string {
  return id.replace(/^([^/]{8})[^/]*/, "$1");
}

// Where a queue can be scaled, most workers first: wherever an orchestrator lives, else where its slots were left.
export function scalable(queue: string, crew: Crew): Place[] {
  const mine = { ...crew, slots: crew.slots.filter((slot) => slot.queue === queue) };
  const rows = hostRows(mine, []);
  const live = rows.filter((row) => row.orchestrator !== null);
  return (live.length ? live : rows).sort((a, b) => b.wanted - a.wanted);
}
