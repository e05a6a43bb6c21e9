import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { limitsDeed, pauseDeed, resumeDeed, scaleDeed } from "../deeds.ts";
import { count, duration, rate, rateOf, timeLeft } from "../format.ts";
import { useFeed, useLook } from "../hooks.ts";
import { to } from "../route.ts";
import type { Crew, JobStatus, Throughput, Queue } from "../types.ts";
import { Ago, Do, Empty, Page, Shown, State, useMay } from "../ui.tsx";

const COUNTED: JobStatus[] = ["ready", "active", "scheduled", "blocked", "done", "failed", "cancelled"];

function limits(queue: Queue): [string, string][] {
  const found: [string, string | number | null][] = [
    ["depth", queue.max_depth],
    ["rate", queue.rate],
    ["at once", queue.concurrency],
    ["per key", queue.per_key],
    ["breaker", queue.breaker === null ? null : `${queue.failures} of ${queue.breaker} failures in a row`],
    ["fence", queue.fence],
  ];
  return found.filter(([, value]) => value !== null).map(([name, value]) => [name, typeof value === "number" ? count(value) : String(value)]);
}

function Card({ queue, crew, pace, isMarked }: { queue: Queue; crew: Crew | null; pace: Throughput | null; isMarked: boolean }): JSX.Element {
  const { queues } = useFeed();
  const live = queues.get(queue.name);
  const slots = (crew?.slots ?? []).filter((slot) => slot.wanted && slot.queue === queue.name);
  const up = slots.filter((slot) => slot.status === "up").length;
  const breaker = queue.paused && queue.paused_by === "breaker";
  return (
    <section class={isMarked ? "panel marked" : "panel"} id={`queue-${queue.name}`} aria-label={queue.name}>
      <header>
        <h2 title={queue.name}>{queue.name}</h2>
        <State state={queue.paused ? "paused" : queue.counts.active > 0 ? "active" : "idle"} />
        <div class="side">
          {queue.paused ? <Do small deed={resumeDeed(queue.name)} /> : <Do small deed={pauseDeed(queue.name)} />}
          {crew ? <Do small deed={scaleDeed(queue.name, crew)} /> : null}
          <Do small deed={limitsDeed(queue)} />
        </div>
      </header>
      {queue.paused ? (
        <p class="said">
          {breaker ? "Its breaker paused it" : `Paused by ${queue.paused_by}`} <Ago at={queue.paused_at} />
          {queue.pause_reason ? `: ${queue.pause_reason}` : "."}
        </p>
      ) : null}
      <dl class="counts">
        {COUNTED.map((state) => (
          <div key={state}>
            <dt>
              <a href={to("jobs", null, { queue: queue.name, status: state })}>
                <State state={state} />
              </a>
            </dt>
            <dd class="number">{count(queue.counts[state])}</dd>
          </div>
        ))}
      </dl>
      <dl class="facts">
        <div>
          <dt>Rate</dt>
          <dd class="number">{rate(rateOf(pace?.rates, queue.name))}</dd>
        </div>
        <div>
          <dt>Usual run</dt>
          <dd class="number">{live && live.avg_time > 0 ? duration(live.avg_time) : "–"}</dd>
        </div>
        <div>
          <dt>Time left</dt>
          <dd class="number">{timeLeft(live, rateOf(pace?.rates, queue.name))}</dd>
        </div>
        <div>
          <dt>Oldest ready</dt>
          <dd class="number">
            <Ago at={queue.oldest_ready_at} />
          </dd>
        </div>
        <div>
          <dt>Workers</dt>
          <dd>
            <a class="number" href={to("workers", null, { queue: queue.name })}>
              {slots.length ? `${up} of ${slots.length} up` : "no pool"}
            </a>
          </dd>
        </div>
        {limits(queue).map(([name, value]) => (
          <div key={name}>
            <dt>Limit: {name}</dt>
            <dd class="number">{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

export function Queues({ which }: { which: string | null }): JSX.Element {
  const look = useLook<Queue[]>("queues", ["queue"], 700);
  const crew = useLook<Crew>("orchestrator", ["worker"], 1500);
  const pace = useLook<Throughput>("pace", ["queue"], 2000);
  const may = useMay();
  const isThere = look.data !== null;
  useEffect(() => {
    if (which && isThere) document.getElementById(`queue-${which}`)?.scrollIntoView({ block: "center" });
  }, [which, isThere]);
  return (
    <Page
      title="Queues"
      actions={
        may ? (
          <>
            <Do deed={pauseDeed(null)} />
            <Do deed={resumeDeed(null)} />
          </>
        ) : null
      }
    >
      <Shown look={look}>
        {(queues) =>
          queues.length === 0 ? (
            <Empty title="No queues yet.">
              A queue comes to be with its first job: <code>rota add "my first job" --queue tag</code>
            </Empty>
          ) : (
            <div class="cards">
              {queues.map((queue) => (
                <Card key={queue.name} queue={queue} crew={crew.data} pace={pace.data} isMarked={queue.name === which} />
              ))}
            </div>
          )
        }
      </Shown>
    </Page>
  );
}
