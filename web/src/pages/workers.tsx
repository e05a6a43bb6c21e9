import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { CrewGrid, inOrder } from "../crew.tsx";
import { count } from "../format.ts";
import { useFeed, useLook } from "../hooks.ts";
import { to } from "../route.ts";
import type { Death, WorkerState } from "../types.ts";
import { Empty, Page, Panel, Shown, State } from "../ui.tsx";
import { Deaths } from "./overview.tsx";

function tally(workers: WorkerState[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const worker of workers) counts.set(worker.status, (counts.get(worker.status) ?? 0) + 1);
  return [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
}

export function Workers({ query }: { query: URLSearchParams }): JSX.Element {
  const { workers, changes, isWhole } = useFeed();
  const [queue, status] = [query.get("queue"), query.get("status")];
  const deaths = useLook<Death[]>("deaths?limit=50", ["worker"], 1500);
  const every = useMemo(() => inOrder(workers.values()), [changes.worker]);
  const shown = every.filter((worker) => (!queue || worker.queue_type === queue) && (!status || worker.status === status));
  const queues = [...new Set(every.map((worker) => worker.queue_type))].filter((name) => name !== null).sort();
  const go = (asked: { queue: string | null; status: string | null }): void => {
    location.hash = to("workers", null, asked);
  };
  return (
    <Page title="Workers" about="Every slot, and every worker that registered by itself">
      <form class="filters">
        <label>
          <span class="hidden">Queue</span>
          <select value={queue ?? ""} onChange={(event) => go({ queue: event.currentTarget.value, status })}>
            <option value="">any queue</option>
            {queues.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <ul class="chips" aria-label="States">
          {tally(every).map(([state, n]) => (
            <li key={state}>
              <a href={to("workers", null, { queue, status: state === status ? null : state })} aria-current={state === status ? "true" : undefined}>
                <State state={state} /> <span class="number">{count(n)}</span>
              </a>
            </li>
          ))}
        </ul>
      </form>
      <Panel title="Slots" side={<span class="number">{isWhole ? `${count(shown.length)} of ${count(every.length)}` : "–"}</span>}>
        {!isWhole && shown.length === 0 ? (
          <div class="waiting" aria-busy="true" />
        ) : shown.length === 0 ? (
          <Empty title={every.length === 0 ? "No workers." : "None is like that."}>
            {every.length === 0 ? (
              <>
                <code>rota orchestrator start --pool tag=2</code> starts two.
              </>
            ) : (
              <a href={to("workers")}>Show all</a>
            )}
          </Empty>
        ) : (
          <CrewGrid workers={shown} room={520} />
        )}
      </Panel>
      <Panel title="Deaths">
        <Shown look={deaths}>{(found) => <Deaths deaths={found} />}</Shown>
      </Panel>
    </Page>
  );
}
