import type { JSX } from "preact";
import { withQuery } from "../api.ts";
import { lineOf, type Line } from "../facts.ts";
import { useLook } from "../hooks.ts";
import { to } from "../route.ts";
import type { Fact } from "../types.ts";
import { Ago, Empty, JobLink, Page, Shown, Table } from "../ui.tsx";

const TOPICS: [pattern: string, title: string][] = [
  ["", "everything"],
  ["queue:jobs", "jobs"],
  ["queue:status", "queues"],
  ["worker:*", "workers"],
  ["source:*", "sources"],
  ["schedule:*", "schedules"],
  ["system:health", "slots, orchestrators and tokens"],
];

function Which({ line }: { line: Line }): JSX.Element {
  if (line.noun === "job") return <JobLink id={line.which} />;
  if (line.noun === "queue") return <a href={to("queues", line.which)}>{line.which}</a>;
  if (line.noun === "worker" || /^(worker|http):/.test(line.which)) return <a href={to("workers", line.which)}>{line.which}</a>;
  return <span>{line.which}</span>;
}

export function Events({ query }: { query: URLSearchParams }): JSX.Element {
  const [topic, text] = [query.get("topic") ?? "", query.get("text") ?? ""];
  const look = useLook<Fact[]>(withQuery("events/log", { topics: topic, limit: 100 }), ["queue", "worker", "source", "schedule", "health", "job"], 1000, 5000);
  const go = (asked: { topic: string; text: string }): void => {
    location.hash = to("events", null, asked);
  };
  return (
    <Page title="Events" about="What happened, and who did it; the newest first">
      <form class="filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          <span class="hidden">About</span>
          <select value={topic} onChange={(event) => go({ topic: event.currentTarget.value, text })}>
            {TOPICS.map(([pattern, title]) => (
              <option key={pattern} value={pattern}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <label class="grow">
          <span class="hidden">Only lines with this text</span>
          <input type="search" placeholder="Only lines with this text" value={text} onInput={(event) => go({ topic, text: event.currentTarget.value })} />
        </label>
      </form>
      <section class="panel">
        <Shown look={look}>
          {(facts) => {
            const lines = facts
              .map(lineOf)
              .reverse()
              .filter((line) => `${line.actor} ${line.noun} ${line.verb} ${line.which} ${line.queue ?? ""} ${line.text}`.toLowerCase().includes(text.toLowerCase()));
            return lines.length === 0 ? (
              <Empty title={text || topic ? "No event is like that among the last ones." : "Nothing has happened yet."} />
            ) : (
              <Table
                label="Events"
                rows={lines}
                keyOf={(line) => line.key}
                columns={[
                  { head: "When", kind: "number", cell: (line) => <Ago at={line.at} /> },
                  { head: "What", cell: (line) => `${line.noun === "health" ? "" : line.noun} ${line.verb}` },
                  { head: "Which", kind: "long", cell: (line) => <Which line={line} /> },
                  { head: "Who", kind: "long", cell: (line) => <span title={line.actor}>{line.actor}</span> },
                  {
                    head: "More",
                    kind: "wide",
                    hide: true,
                    cell: (line) => (
                      <span title={line.text}>
                        {line.queue ? `${line.queue}: ` : ""}
                        {line.text}
                      </span>
                    ),
                  },
                ]}
              />
            );
          }}
        </Shown>
      </section>
    </Page>
  );
}
