import type { JSX } from "preact";
import { send } from "../api.ts";
import { count, duration } from "../format.ts";
import { useLook } from "../hooks.ts";
import { to } from "../route.ts";
import type { Source, Tracking } from "../types.ts";
import { Ago, Do, Empty, Page, Panel, Shown, State, Table } from "../ui.tsx";

export function Share({ good, bad, rest, label }: { good: number; bad: number; rest: number; label: string }): JSX.Element {
  const all = Math.max(1, good + bad + rest);
  return (
    <div class="share" role="img" aria-label={label} title={label}>
      <i class="good" style={{ width: `${(good / all) * 100}%` }} />
      <i class="bad" style={{ width: `${(bad / all) * 100}%` }} />
    </div>
  );
}

function waitingOf(source: Source): number {
  return ["ready", "active", "scheduled", "blocked"].reduce((sum, state) => sum + (source.counts[state] ?? 0), 0);
}

function SourceCard({ source }: { source: Source }): JSX.Element {
  const waiting = waitingOf(source);
  const failed = source.counts["failed"] ?? 0;
  return (
    <section class="panel" aria-label={source.name}>
      <header>
        <h2 title={source.name}>{source.name}</h2>
        {source.last_fill_error ? <State state="failed" /> : null}
        <div class="side">
          <Do
            small
            deed={{
              label: "Forget",
              title: `Forget source ${source.name}?`,
              about: "Its counters and the jobs of it that wait are removed. A crew that declares it begins it anew.",
              danger: true,
              did: `${source.name} is forgotten`,
              nouns: ["source", "queue"],
              run: () => send("DELETE", `sources/${encodeURIComponent(source.name)}`),
            }}
          />
        </div>
      </header>
      <Share good={source.success_count} bad={failed} rest={waiting} label={`${count(source.success_count)} done, ${count(failed)} failed, ${count(waiting)} under way`} />
      <dl class="facts">
        <Fact name="Done" value={count(source.success_count)} />
        <Fact name="Under way" value={count(waiting)} />
        <Fact name="Failed for good" value={count(failed)} />
        <Fact name="Failed attempts" value={count(source.error_count)} />
        <Fact name="Found" value={count(source.added_count)} />
        <Fact name="Repeated" value={count(source.repeated_count)} />
        <Fact name="Queue" value={<a href={to("jobs", null, { queue: source.queue })}>{source.queue}</a>} />
        <Fact name="Task" value={source.task} />
        <Fact name="Looks" value={`every ${duration(source.every)}`} />
        <Fact name="Looked" value={<Ago at={source.last_fill_at} />} />
        <Fact name="Looks again" value={<Ago at={source.next_fill_at} />} />
      </dl>
      {source.last_fill_error ? <p class="said bad">Looking failed: {source.last_fill_error}</p> : null}
      {source.last_error_message ? (
        <p class="said">
          Last error <Ago at={source.last_error_at} />: {source.last_error_message}
        </p>
      ) : null}
    </section>
  );
}

function Fact({ name, value }: { name: string; value: JSX.Element | string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd class="number">{value}</dd>
    </div>
  );
}

function Tracked({ tracking }: { tracking: Tracking }): JSX.Element {
  if (!tracking.enabled) {
    return (
      <Empty title="Tracking is off.">
        The setting <code>tracking</code> names a PostgreSQL database, and <code>rota tracking install</code> makes its tables.
      </Empty>
    );
  }
  const workers = [...tracking.live_workers.map((each) => ({ ...each, state: "live" })), ...tracking.dead_workers.map((each) => ({ ...each, state: "dead" }))];
  return (
    <>
      <Table
        label="Vectorizers"
        rows={tracking.vectorizers}
        keyOf={(each) => each.id}
        columns={[
          { head: "Vectorizer", kind: "number", cell: (each) => each.id },
          { head: "Table", kind: "long", cell: (each) => each.source_table ?? "–" },
          { head: "Health", kind: "wide", cell: (each) => <Share good={each.success_count} bad={each.error_count} rest={0} label={each.health === null ? "nothing done yet" : `${Math.floor(each.health * 100)} %`} /> },
          { head: "Done", kind: "number", cell: (each) => count(each.success_count) },
          { head: "Failed", kind: "number", cell: (each) => count(each.error_count) },
          { head: "Updated", kind: "number", hide: true, cell: (each) => <Ago at={each.updated_at} /> },
        ]}
      />
      <Table
        label="Tracked workers"
        rows={workers}
        keyOf={(each) => each.id}
        columns={[
          { head: "Worker", kind: "long", cell: (each) => <span title={each.id}>{each.id}</span> },
          { head: "State", cell: (each) => <State state={each.state} /> },
          { head: "Last beat", kind: "number", cell: (each) => <Ago at={each.last_heartbeat} /> },
          { head: "Done", kind: "number", cell: (each) => count(each.success_count) },
          { head: "Failed", kind: "number", cell: (each) => count(each.error_count) },
          { head: "Last error", kind: "wide", hide: true, cell: (each) => <span title={each.last_error_message ?? ""}>{each.last_error_message ?? "–"}</span> },
        ]}
      />
    </>
  );
}

export function Sources(): JSX.Element {
  const look = useLook<Source[]>("sources", ["source", "queue"], 1000);
  const tracking = useLook<Tracking>("tracking", [], 10_000, 10_000);
  return (
    <Page title="Sources" about="Work found in your own data, and how far it is">
      <Shown look={look}>
        {(sources) =>
          sources.length === 0 ? (
            <Panel title="Sources">
              <Empty title="No sources.">
                <code>@app.source</code> declares one: it finds work in your own data and offers it as jobs.
              </Empty>
            </Panel>
          ) : (
            <div class="cards">
              {sources.map((source) => (
                <SourceCard key={source.name} source={source} />
              ))}
            </div>
          )
        }
      </Shown>
      <Panel title="Tracking">
        <Shown look={tracking}>{(found) => <Tracked tracking={found} />}</Shown>
      </Panel>
    </Page>
  );
}
