import type { JSX } from "preact";
import { resetDeed, stopDeed } from "../deeds.ts";
import { absolute, count, duration, moment } from "../format.ts";
import { useLook } from "../hooks.ts";
import { feed } from "../live.ts";
import { to } from "../route.ts";
import { bounds, marks, placed } from "../timeline.ts";
import type { Crew, Death, Slot, Worker } from "../types.ts";
import { Ago, Do, Empty, JobLink, Page, Panel, Shown, State } from "../ui.tsx";

function Certificate({ death }: { death: Death }): JSX.Element {
  const facts: [string, JSX.Element | string][] = [
    ["Died", <Ago at={death.died_at} />],
    ["Worker", <code>{death.worker_id}</code>],
    ["Reason", death.reason],
  ];
  if (death.signal !== null) facts.push(["Signal", String(death.signal)]);
  if (death.exit_code !== null) facts.push(["Exit code", String(death.exit_code)]);
  if (death.sent_by) facts.push(["Sent by", death.sent_by]);
  if (death.job_id !== null) facts.push(["Job in hand", <JobLink id={death.job_id} />]);
  if (death.slot) facts.push(["Slot", <a href={to("workers", death.slot)}>{death.slot}</a>]);
  if (death.last_frame) facts.push(["Last frame", <code class="long">{death.last_frame}</code>]);
  return (
    <article class="certificate" aria-label={`Death certificate of ${death.worker_id}`}>
      <h3>{death.text ?? death.reason}</h3>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {death.stderr_tail ? (
        <pre class="value" tabIndex={0} aria-label="What it wrote last">
          {death.stderr_tail}
        </pre>
      ) : null}
    </article>
  );
}

// Each life from its start to its death; the gaps are the times until the next start.
function Lives({ deaths, since, within }: { deaths: Death[]; since: string | null; within: number }): JSX.Element {
  const now = Date.now() - feed.skew;
  const lives = deaths.map((death) => ({ death, from: moment(death.began_at) ?? moment(death.died_at) ?? now, until: moment(death.died_at) ?? now }));
  const range = bounds([...lives, { from: Math.min(moment(since) ?? now, now - within * 1000), until: null }], now);
  return (
    <div class="timeline" role="img" aria-label={`${deaths.length} deaths since ${absolute(range[0])}`}>
      <div class="marks">
        {marks([0, range[1] - range[0]], 5)
          .reverse()
          .map((age) => (
            <span key={age} style={{ left: `${(1 - age / (range[1] - range[0])) * 100}%` }}>
              {age === 0 ? "now" : `${duration(age / 1000)} ago`}
            </span>
          ))}
      </div>
      <div class="track tall">
        {since ? <i class="good" style={spot({ from: moment(since) ?? now, until: null }, range, now)} title="alive now" /> : null}
        {lives.map((life) => (
          <i key={life.death.worker_id} class="calm" style={spot(life, range, now)} title={`${life.death.worker_id} lived for ${duration((life.until - life.from) / 1000)}`} />
        ))}
        {lives.map((life) => (
          <b key={life.death.worker_id} style={{ left: `${((life.until - range[0]) / (range[1] - range[0])) * 100}%` }} title={`${absolute(life.until)}: ${life.death.text ?? life.death.reason}`} />
        ))}
      </div>
    </div>
  );
}

function spot(span: { from: number; until: number | null }, range: [number, number], now: number): { left: string; width: string } {
  const { left, width } = placed(span, range, now);
  return { left: `${left * 100}%`, width: `${width * 100}%` };
}

function WorkerFacts({ worker }: { worker: Worker }): JSX.Element {
  return (
    <dl class="facts">
      <Fact name="Worker" value={<code>{worker.id}</code>} />
      <Fact name="State" value={<State state={worker.status} />} />
      <Fact name="Job" value={worker.current_job === null ? "–" : <JobLink id={worker.current_job} />} />
      <Fact name="Process" value={worker.pid === null ? "–" : String(worker.pid)} />
      <Fact name="Host" value={worker.hostname} />
      <Fact name="Alive since" value={<Ago at={worker.registered_at} />} />
      <Fact name="Succeeded" value={count(worker.success_count)} />
      <Fact name="Failed" value={count(worker.error_count)} />
      {worker.last_error_message ? <Fact name="Last error" value={worker.last_error_message} /> : null}
    </dl>
  );
}

function Fact({ name, value }: { name: string; value: JSX.Element | string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Policy({ slot, settings }: { slot: Slot; settings: Crew["settings"] }): JSX.Element {
  return (
    <dl class="facts">
      <Fact name="Slot" value={<State state={slot.status} />} />
      <Fact name="Health" value={slot.health ?? "–"} />
      <Fact name="Crew" value={slot.crew} />
      <Fact name="Host" value={slot.host ?? "–"} />
      <Fact name="Restarts of late" value={`${slot.restarts} of ${settings.restart_limit} within ${duration(settings.restart_window)}`} />
      <Fact name="Restarts in all" value={`${slot.lifetime_restarts} of ${settings.restart_lifetime}`} />
      <Fact name="Next start" value={slot.starts_in === null ? "–" : `in ${duration(slot.starts_in)}`} />
    </dl>
  );
}

export function SlotPage({ name }: { name: string }): JSX.Element {
  return name.startsWith("worker-") ? <OneWorker id={name} /> : <OneSlot name={name} />;
}

function OneSlot({ name }: { name: string }): JSX.Element {
  const crew = useLook<Crew>("orchestrator", ["worker"], 700, 5000);
  const deaths = useLook<Death[]>(`deaths?limit=100&slot=${encodeURIComponent(name)}`, ["worker"], 700);
  const why = useLook<{ why: string }>(`slots/${encodeURIComponent(name)}/why`, ["worker"], 700, 5000);
  const slot = crew.data?.slots.find((each) => each.name === name) ?? null;
  // As often as the sentence above it, so that both speak of one job.
  const worker = useLook<Worker>(slot?.worker_id ? `workers/${slot.worker_id}` : null, ["worker"], 700, 5000);
  return (
    <Page
      title={name}
      actions={
        slot ? (
          <>
            {slot.worker_id ? <Do deed={stopDeed(slot.worker_id)} /> : null}
            <Do deed={resetDeed(name)} />
          </>
        ) : null
      }
    >
      <Shown look={crew}>
        {(found) =>
          slot === null ? (
            <Empty title={`There is no slot ${name}.`}>
              <a href={to("workers")}>Show all workers</a>
            </Empty>
          ) : (
            <>
              <p class="why" role="status">
                {why.data?.why ?? " "}
              </p>
              <div class="columns even">
                <Panel title="Restarts">
                  <Policy slot={slot} settings={found.settings} />
                </Panel>
                <Panel title="Worker">{worker.data && slot.worker_id ? <WorkerFacts worker={worker.data} /> : <Empty title="No worker fills it now." />}</Panel>
              </div>
              <Panel title="Deaths">
                <Shown look={deaths}>
                  {(all) => (
                    <>
                      <Lives deaths={all} since={slot.worker_id ? (worker.data?.registered_at ?? null) : null} within={found.settings.restart_window} />
                      {all.length === 0 ? <Empty title="No worker has died here." /> : all.slice(0, 20).map((death) => <Certificate key={death.worker_id} death={death} />)}
                    </>
                  )}
                </Shown>
              </Panel>
            </>
          )
        }
      </Shown>
    </Page>
  );
}

function OneWorker({ id }: { id: string }): JSX.Element {
  const look = useLook<Worker>(`workers/${encodeURIComponent(id)}`, ["worker"], 700, 5000);
  const deaths = useLook<Death[]>(`deaths?worker=${encodeURIComponent(id)}`, ["worker"], 2000);
  const death = deaths.data?.[0];
  const ended = look.data !== null && ["dead", "stopped"].includes(look.data.status);
  return (
    <Page title={id} about={look.data?.name} actions={look.data && !ended ? <Do deed={stopDeed(id)} /> : null}>
      <Shown look={look}>
        {(worker) => (
          <>
            <Panel title="Worker" side={worker.slot ? <a href={to("workers", worker.slot)}>{worker.slot}</a> : null}>
              <WorkerFacts worker={worker} />
            </Panel>
            {death ? (
              <Panel title="Death certificate">
                <Certificate death={death} />
              </Panel>
            ) : null}
          </>
        )}
      </Shown>
    </Page>
  );
}
