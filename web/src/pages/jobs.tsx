import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { withQuery } from "../api.ts";
import { useFeed, useLook } from "../hooks.ts";
import { to } from "../route.ts";
import type { Job } from "../types.ts";
import { Ago, Empty, JobLink, Page, Shown, State, Table } from "../ui.tsx";

const STATES = ["", "ready", "active", "scheduled", "blocked", "done", "failed", "cancelled"];
const LIMIT = 50;

function go(query: Record<string, string | null>): void {
  location.hash = to("jobs", null, query);
}

export function Jobs({ query }: { query: URLSearchParams }): JSX.Element {
  const { queues } = useFeed();
  const asked = { search: query.get("search"), status: query.get("status"), queue: query.get("queue") };
  const before = query.get("before");
  const [text, setText] = useState(asked.search ?? "");
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const path = withQuery("jobs", { ...asked, before, limit: LIMIT });
  const look = useLook<Job[]>(path, before ? [] : ["queue", "job"], asked.search ? 3000 : 1000);
  const sent = useRef(text);
  useLayoutEffect(() => {
    // An address that changed otherwise than by typing says what the field holds; the answer to typing must not undo what was typed since.
    const now = asked.search ?? "";
    if (now !== sent.current) setText((sent.current = now));
  }, [asked.search]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = (value: string): void => {
    sent.current = value;
    go({ ...asked, search: value });
  };
  const type = (value: string): void => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => send(value), 300);
  };
  const enter = (event: Event): void => {
    event.preventDefault();
    clearTimeout(timer.current);
    const id = text.trim().match(/^#?(\d{1,18})$/)?.[1];
    if (id) location.hash = to("jobs", id);
    else send(text);
  };
  const names = [...new Set([...queues.keys(), ...(asked.queue ? [asked.queue] : [])])].sort();
  const older = look.next ? new URLSearchParams(look.next.split("?")[1]).get("before") : null;
  const found = look.data?.length;
  useEffect(() => {
    // One search looks at so many jobs; where none of them is meant, it goes on by itself until there are no more.
    if (found === 0 && asked.search && older) location.replace(to("jobs", null, { ...asked, before: older }));
  }, [found, older]);
  return (
    <Page title="Jobs">
      <form class="filters" role="search" onSubmit={enter}>
        <label class="grow">
          <span class="hidden">Search titles, kinds and keys, or enter an id</span>
          <input type="search" placeholder="Search titles, kinds and keys, or enter an id" value={text} onInput={(event) => type(event.currentTarget.value)} />
        </label>
        <label>
          <span class="hidden">State</span>
          <select value={asked.status ?? ""} onChange={(event) => go({ ...asked, status: event.currentTarget.value })}>
            {STATES.map((state) => (
              <option key={state} value={state}>
                {state || "any state"}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="hidden">Queue</span>
          <select value={asked.queue ?? ""} onChange={(event) => go({ ...asked, queue: event.currentTarget.value })}>
            <option value="">any queue</option>
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </form>
      <section class="panel">
        <Shown look={look}>
          {(jobs) =>
            jobs.length === 0 ? (
              <Empty title={asked.search || asked.status || asked.queue ? (older ? "None among the jobs searched so far." : "No job is like that.") : "No jobs yet."}>
                {asked.search || asked.status || asked.queue ? (
                  older ? null : (
                    <a href={to("jobs")}>Show all jobs</a>
                  )
                ) : (
                  <code>rota add "my first job"</code>
                )}
              </Empty>
            ) : (
              <Table
                label="Jobs"
                rows={jobs}
                keyOf={(job) => job.id}
                columns={[
                  { head: "Job", kind: "wide", cell: (job) => <JobLink id={job.id} title={job.title} /> },
                  { head: "State", cell: (job) => <State state={job.status} /> },
                  { head: "Queue", kind: "long", cell: (job) => <span title={job.queue}>{job.queue}</span> },
                  { head: "Kind", kind: "long", hide: true, cell: (job) => <span title={job.kind ?? ""}>{job.kind ?? "–"}</span> },
                  { head: "Attempts", kind: "number", hide: true, cell: (job) => `${job.attempts} of ${job.max_attempts}` },
                  { head: "Added", kind: "number", hide: true, cell: (job) => <Ago at={job.created_at} /> },
                  { head: "Changed", kind: "number", cell: (job) => <Ago at={job.finished_at ?? job.started_at ?? job.created_at} /> },
                ]}
              />
            )
          }
        </Shown>
        <footer class="pager">
          {before ? <a href={to("jobs", null, asked)}>Newest</a> : <span class="quiet">The newest first</span>}
          {older ? (
            <a href={to("jobs", null, { ...asked, before: older })}>{asked.search ? "Search older ones" : "Older"}</a>
          ) : (
            <span class="quiet">{look.data !== null ? "No older ones" : asked.search && look.problem === null ? "Searching…" : ""}</span>
          )}
        </footer>
      </section>
    </Page>
  );
}
