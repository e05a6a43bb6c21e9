import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Chart, type Line } from "../charts.tsx";
import { CrewGrid, inOrder } from "../crew.tsx";
import { pauseDeed, resumeDeed } from "../deeds.ts";
import { count, duration, rate, rateOf, timeLeft } from "../format.ts";
import { useFeed, useLook, type Looked } from "../hooks.ts";
import { to } from "../route.ts";
import { agos, begun, bridged, last, perSecond } from "../series.ts";
import type { Death, Notice, Throughput, Queue, Series } from "../types.ts";
import { Ago, Do, Empty, JobLink, Page, Panel, Shape, Shown, State, Table, useMay } from "../ui.tsx";

const NOUN_STATE: Record<Notice["noun"], string> = { host: "unreachable", slot: "failed", queue: "paused", failures: "failed", schedule: "failed", job: "failed", run: "late" };

const ABOUT: Record<string, string> = { p50: "half of them took no longer", p95: "95 of 100 took no longer", finished: "ended well", failed: "attempts that failed, died or lapsed" };

function placeOf(notice: Notice): string {
  switch (notice.noun) {
    case "host":
      return to("hosts");
    case "slot":
      return to("workers", notice.which);
    case "queue":
      return to("queues", notice.which);
    case "failures":
      return to("jobs", null, { status: "failed", queue: notice.which });
    case "schedule":
      return to("schedules");
    case "job":
    case "run":
      return to("jobs", notice.which);
  }
}

function Attention(): JSX.Element {
  const look = useLook<Notice[]>("attention", ["health", "worker", "queue", "schedule"], 2000);
  return (
    <Shown look={look}>
      {(notices) =>
        notices.length === 0 ? (
          <p class="well">
            <Shape state="done" />
            Nothing needs attention.
          </p>
        ) : (
          <Panel title="Needs attention" side={<span class="number">{count(notices.length)}</span>}>
            <ul class="notices">
              {notices.map((notice) => (
                <li key={`${notice.noun} ${notice.which} ${notice.text}`}>
                  <Shape state={NOUN_STATE[notice.noun]} />
                  <a href={placeOf(notice)} title={notice.which}>
                    {notice.noun === "job" || notice.noun === "run" ? `${notice.noun} #${notice.which}` : notice.which}
                  </a>
                  <span class="text" title={notice.text}>
                    {notice.text}
                  </span>
                  <Ago at={notice.since} />
                </li>
              ))}
            </ul>
          </Panel>
        )
      }
    </Shown>
  );
}

const LEAST = 60; // seconds

function shortened(pace: Throughput): Throughput {
  const from = begun([pace.finished, pace.failed, pace.pickup_p95, pace.run_p95], LEAST / pace.step);
  const cut = (series: Series): Series => series.slice(from);
  const [finished, failed, pickup_p50, pickup_p95] = [cut(pace.finished), cut(pace.failed), cut(pace.pickup_p50), cut(pace.pickup_p95)];
  return { ...pace, finished, failed, pickup_p50, pickup_p95, run_p50: cut(pace.run_p50), run_p95: cut(pace.run_p95) };
}

function Charts({ pace: whole, theme }: { pace: Throughput; theme: string }): JSX.Element {
  const pace = useMemo(() => shortened(whole), [whole]);
  const times = useMemo(() => agos(pace.finished.length, pace.step), [pace.finished.length, pace.step]);
  const charts: [title: string, lines: Line[], say: (value: number) => string][] = useMemo(
    () => [
      ["Throughput", [{ label: "finished", values: perSecond(pace.finished, pace.step), tone: "accent", fill: true }], rate],
      ["Failures", [{ label: "failed", values: perSecond(pace.failed, pace.step), tone: "bad", fill: true }], rate],
      [
        "Pickup time",
        [
          { label: "p95", values: bridged(pace.pickup_p95), tone: "soft" },
          { label: "p50", values: bridged(pace.pickup_p50), tone: "accent" },
        ],
        duration,
      ],
      [
        "Run time",
        [
          { label: "p95", values: bridged(pace.run_p95), tone: "soft" },
          { label: "p50", values: bridged(pace.run_p50), tone: "accent" },
        ],
        duration,
      ],
    ],
    [pace],
  );
  return (
    <div class="charts">
      {charts.map(([title, lines, say]) => (
        <Panel
          key={title}
          title={title}
          side={lines.map((line) => {
            const value = last(line.values);
            return (
              <span key={line.label} class={`key with-${line.tone}`} title={ABOUT[line.label]}>
                {line.label} <b class="number">{value === null ? "–" : say(value)}</b>
              </span>
            );
          })}
        >
          <Chart times={times} lines={lines} say={say} label={`${title} over the last ${duration(times.length * pace.step)}`} theme={theme} />
        </Panel>
      ))}
    </div>
  );
}

function Tile({ label, value, title, href }: { label: string; value: string; title?: string; href?: string }): JSX.Element {
  return (
    <div class="tile" title={title}>
      <b class="number">{value}</b>
      {href ? <a href={href}>{label}</a> : <span>{label}</span>}
    </div>
  );
}

function Tiles({ pace, found }: { pace: Throughput | null; found: Queue[] | null }): JSX.Element {
  const { all, workers, isWhole } = useFeed();
  const crew = [...workers.values()];
  const busy = crew.filter((worker) => worker.current_job !== null).length;
  const together = Object.values(pace?.rates ?? {}).reduce((sum, each) => sum + each, 0);
  return (
    <div class="tiles">
      <Tile label="waiting" value={all ? count(all.pending) : "–"} />
      <Tile label="running" value={all ? count(all.running) : "–"} />
      <Tile label="failed" value={found ? count(found.reduce((sum, queue) => sum + queue.counts.failed, 0)) : "–"} title="until they are tried again or pruned" href={to("jobs", null, { status: "failed" })} />
      <Tile label="finished lately" value={rate(together)} title="over the last 10 seconds" />
      <Tile label="workers busy" value={isWhole ? `${count(busy)} of ${count(crew.length)}` : "–"} />
      <Tile label="all worked off in" value={all ? timeLeft(all, together) : "–"} title="at the pace of late, or at the usual time per job" />
    </div>
  );
}

function QueueTable({ pace, look }: { pace: Throughput | null; look: Looked<Queue[]> }): JSX.Element {
  const { queues } = useFeed();
  return (
    <Panel title="Queues" side={<a href={to("queues")}>All about queues</a>}>
      <Shown look={look}>
        {(found) =>
          found.length === 0 ? (
            <Empty title="No queues yet.">
              A queue comes to be with its first job: <code>rota add "my first job"</code>
            </Empty>
          ) : (
            <Table
              label="Queues"
              rows={found}
              keyOf={(queue) => queue.name}
              columns={[
                {
                  head: "Queue",
                  kind: "long",
                  cell: (queue) => (
                    <a href={to("jobs", null, { queue: queue.name })} title={queue.name}>
                      {queue.name}
                    </a>
                  ),
                },
                { head: "State", cell: (queue) => <State state={queue.paused ? "paused" : queue.counts.active ? "active" : "idle"} /> },
                { head: "Waiting", kind: "number", cell: (queue) => count(queues.get(queue.name)?.pending ?? queue.counts.ready + queue.counts.blocked + queue.counts.scheduled) },
                { head: "Running", kind: "number", cell: (queue) => count(queues.get(queue.name)?.running ?? queue.counts.active) },
                { head: "Rate", kind: "number", cell: (queue) => rate(rateOf(pace?.rates, queue.name)) },
                { head: "Oldest ready", kind: "number", hide: true, cell: (queue) => <Ago at={queue.oldest_ready_at} /> },
                { head: "Time left", kind: "number", hide: true, cell: (queue) => timeLeft(queues.get(queue.name), rateOf(pace?.rates, queue.name)) },
                { head: "Failed", kind: "number", hide: true, cell: (queue) => count(queue.counts.failed) },
              ]}
            />
          )
        }
      </Shown>
    </Panel>
  );
}

export function Deaths({ deaths }: { deaths: Death[] }): JSX.Element {
  if (deaths.length === 0) return <Empty title="No worker has died." />;
  return (
    <ul class="deaths">
      {deaths.map((death) => (
        <li key={`${death.worker_id} ${death.died_at}`}>
          <Shape state="dead" />
          <a href={to("workers", death.slot ?? death.worker_id)}>{death.slot ?? death.worker_id}</a>
          <span class="text" title={death.text ?? death.reason}>
            {death.text ?? death.reason}
            {death.job_id === null ? null : (
              <>
                {" "}
                with <JobLink id={death.job_id} />
              </>
            )}
          </span>
          <Ago at={death.died_at} />
        </li>
      ))}
    </ul>
  );
}

export function Overview({ theme }: { theme: string }): JSX.Element {
  const { workers, changes, isWhole } = useFeed();
  const pace = useLook<Throughput>("pace", ["queue"], 2000, 10_000);
  const queues = useLook<Queue[]>("queues", ["queue"], 1000);
  const deaths = useLook<Death[]>("deaths?limit=8", ["worker"], 1500);
  const crew = useMemo(() => inOrder(workers.values()), [changes.worker]);
  const may = useMay();
  return (
    <Page
      title="Overview"
      actions={
        may ? (
          <>
            <Do deed={pauseDeed(null)} />
            <Do deed={resumeDeed(null)} />
          </>
        ) : null
      }
    >
      <Tiles pace={pace.data} found={queues.data} />
      <Attention />
      <Shown look={pace}>{(data) => <Charts pace={data} theme={theme} />}</Shown>
      <QueueTable pace={pace.data} look={queues} />
      <>
        <Panel title="Crew" side={<span class="number">{isWhole ? count(crew.length) : "–"}</span>}>
          {!isWhole && crew.length === 0 ? (
            <div class="waiting" aria-busy="true" />
          ) : crew.length === 0 ? (
            <Empty title="No workers.">
              <code>rota orchestrator start</code> starts some; any program may register.
            </Empty>
          ) : (
            <CrewGrid workers={crew} room={320} />
          )}
        </Panel>
        <Panel title="Recent deaths">
          <Shown look={deaths}>{(found) => <Deaths deaths={found} />}</Shown>
        </Panel>
      </>
    </Page>
  );
}
