import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, Problem, withQuery } from "../api.ts";
import { jobDeeds, releaseDeed } from "../deeds.ts";
import { bytes, duration, moment, plain } from "../format.ts";
import { layout } from "../graph.ts";
import { useFeed, useLook } from "../hooks.ts";
import { feed } from "../live.ts";
import { to } from "../route.ts";
import { bounds, marks, placed, type Span } from "../timeline.ts";
import type { Graph, Job, Json, Output, Run, Worker } from "../types.ts";
import { Ago, Do, Empty, JobLink, Page, Panel, Shape, Shown, State, Table, toneOf, useMay } from "../ui.tsx";

const WIDE = 190;
const HIGH = 40;
const KEPT = 200_000; // characters of output in the page

// Whether it is rota's own, which fills a queue from a source: nobody settles such a job.
function isOwn(job: Job): boolean {
  return job.queue.startsWith("~");
}

function Facts({ job }: { job: Job }): JSX.Element {
  const facts: [string, JSX.Element | string][] = [
    ["State", <State state={job.status} />],
    ["Queue", <a href={to("jobs", null, { queue: job.queue })}>{job.queue}</a>],
    ["Kind", job.kind ?? "–"],
    ["Priority", String(job.priority)],
    ["Attempts", isOwn(job) ? String(job.attempts) : `${job.attempts} of ${job.max_attempts}`],
    ["Added", <Ago at={job.created_at} />],
    ["Started", <Ago at={job.started_at} />],
    ["Finished", <Ago at={job.finished_at} />],
  ];
  if (job.due_at) facts.push(["Due", <Ago at={job.due_at} />]);
  if (job.scheduled_for) facts.push(["Scheduled for", <Ago at={job.scheduled_for} />]);
  if (job.worker_id) facts.push(["Held by", <a href={to("workers", job.worker_id)}>{job.worker_id}</a>]);
  if (job.parent !== null) facts.push(["Parent", <JobLink id={job.parent} />]);
  if (job.children.length) {
    const shown = job.children.slice(0, 12);
    facts.push([
      "Children",
      <span class="links">
        {shown.map((id) => (
          <JobLink key={id} id={id} />
        ))}
        {job.children.length > shown.length ? ` and ${job.children.length - shown.length} more` : null}
      </span>,
    ]);
  }
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function whyEnded(run: Run): string {
  const why = [run.reason, run.error ?? run.note].filter((each) => each !== null && each !== "");
  return why.length ? why.join(": ") : run.verb === "finish" ? "finished" : run.verb;
}

function Timeline({ runs, job }: { runs: Run[]; job: Job }): JSX.Element {
  const now = Date.now() - feed.skew;
  const spans: (Span & { id: string; status: string; who: string; why: string })[] = runs.map((run) => ({
    id: run.id,
    status: run.status,
    who: run.worker_id,
    why: whyEnded(run),
    from: moment(run.claimed_at) ?? now,
    until: moment(run.ended_at),
  }));
  if (job.status === "active" && job.run_id && job.started_at) {
    spans.push({ id: job.run_id, status: "active", who: job.worker_id ?? "", why: "runs now", from: moment(job.started_at) ?? now, until: null });
  }
  if (spans.length === 0) return <Empty title="It has not run yet." />;
  const range = bounds(spans, now);
  return (
    <>
      <div class="timeline" aria-hidden="true">
        <div class="marks">
          {marks([0, range[1] - range[0]]).map((after) => (
            <span key={after} style={{ left: `${(after / (range[1] - range[0])) * 100}%` }}>
              {duration(after / 1000)}
            </span>
          ))}
        </div>
        {spans.map((span) => {
          const { left, width } = placed(span, range, now);
          return (
            <div key={span.id} class="track">
              <i class={toneOf(span.status)} style={{ left: `${left * 100}%`, width: `${width * 100}%` }} title={`${span.id}: ${span.why}`} />
            </div>
          );
        })}
      </div>
      <Table
        label="Runs"
        rows={[...spans].reverse()}
        keyOf={(span) => span.id}
        columns={[
          { head: "Run", cell: (span) => <code>{span.id}</code> },
          { head: "Ended as", cell: (span) => <State state={span.status} /> },
          { head: "Held by", kind: "long", cell: (span) => <a href={to("workers", span.who)} title={span.who}>{span.who}</a> },
          { head: "Took", kind: "number", cell: (span) => duration(((span.until ?? now) - span.from) / 1000) },
          { head: "Began", kind: "number", hide: true, cell: (span) => <Ago at={new Date(span.from).toISOString()} /> },
          { head: "Why it ended", kind: "wide", cell: (span) => <span title={span.why}>{span.why}</span> },
        ]}
      />
    </>
  );
}

function Dependencies({ id }: { id: number }): JSX.Element | null {
  const look = useLook<Graph>(`jobs/${id}/graph`, ["queue", "job"], 2000);
  const graph = look.data;
  if (!graph || graph.edges.length === 0) return null;
  const spots = layout(
    graph.nodes.map((node) => node.id),
    graph.edges,
  );
  const place = new Map(spots.map((spot) => [spot.id, { x: spot.column * (WIDE + 56), y: spot.row * (HIGH + 12) }]));
  const width = Math.max(...spots.map((spot) => spot.column + 1)) * (WIDE + 56) - 56;
  const height = Math.max(...spots.map((spot) => spot.row + 1)) * (HIGH + 12) - 12;
  return (
    <Panel title="Dependencies" side={graph.is_whole ? "what is needed stands left" : "only the nearest are shown"}>
      <div class="graph" tabIndex={0} role="group" aria-label="Dependencies">
        <svg width={width} height={height} aria-hidden="true">
          {graph.edges.map(([job, needed]) => {
            const [from, until] = [place.get(needed), place.get(job)];
            if (!from || !until) return null;
            const [x, y, tox, toy] = [from.x + WIDE, from.y + HIGH / 2, until.x, until.y + HIGH / 2];
            const down = tox - x > WIDE ? HIGH * 1.2 : 0; // around what stands between
            return <path key={`${job} ${needed}`} d={`M${x} ${y}C${x + 28} ${y + down} ${tox - 28} ${toy + down} ${tox} ${toy}`} />;
          })}
        </svg>
        <div style={{ width: `${width}px`, height: `${height}px` }}>
          {graph.nodes.map((node) => (
            <a
              key={node.id}
              href={to("jobs", node.id)}
              class={node.id === id ? "node here" : "node"}
              style={{ left: `${place.get(node.id)?.x ?? 0}px`, top: `${place.get(node.id)?.y ?? 0}px`, width: `${WIDE}px`, height: `${HIGH}px` }}
              title={`#${node.id} ${node.title}: ${node.status}`}
            >
              <Shape state={node.status} />
              <span>
                <b>{`#${node.id} ${node.title}`}</b>
                <small>{node.status}</small>
              </span>
            </a>
          ))}
        </div>
      </div>
    </Panel>
  );
}

// What the newest run writes, read on for as long as it lives.
function Written({ job }: { job: Job }): JSX.Element | null {
  const [stream, setStream] = useState<"transcript" | "stderr">("transcript");
  const [text, setText] = useState("");
  const [told, setTold] = useState<Output | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [follows, setFollows] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const isFinal = ["done", "failed", "cancelled"].includes(job.status);
  useEffect(() => {
    const ending = new AbortController();
    setText("");
    setTold(null);
    setProblem(null);
    const run = async (): Promise<void> => {
      let offset: number | null = null;
      while (!ending.signal.aborted) {
        const path = withQuery(`jobs/${job.id}/output`, { stream, offset, run: job.run_id, wait: offset === null ? null : 20 });
        try {
          const part: Output = await get<Output>(path, ending.signal);
          setProblem(null);
          setTold(part);
          const isAnew = offset !== null && part.offset < offset;
          setText((was) => (isAnew ? part.text : was + part.text).slice(-KEPT));
          offset = part.next;
          if (!part.is_live && part.next >= part.size) return;
        } catch (refused) {
          if (!(refused instanceof Problem)) return;
          setProblem(refused);
          if (refused.status !== 0 && isFinal) return;
          await new Promise((done) => setTimeout(done, 2000));
        }
      }
    };
    void run();
    return () => ending.abort();
  }, [job.id, job.run_id, stream, isFinal]);
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follows]);
  // What kept no output, as most functions do, needs no place for it.
  if (problem?.status === 404 && isFinal && stream === "transcript" && problem.message.includes("did not say")) return null;
  return (
    <Panel
      title="Output"
      side={
        <>
          {told ? (
            <span class="quiet">
              {told.run_id}, {bytes(told.size)}
              {told.is_live ? ", live" : ""}
            </span>
          ) : null}
          <label class="inline">
            <input type="checkbox" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} /> follow
          </label>
          <select aria-label="Stream" value={stream} onChange={(event) => setStream(event.currentTarget.value === "stderr" ? "stderr" : "transcript")}>
            <option value="transcript">transcript</option>
            <option value="stderr">stderr</option>
          </select>
        </>
      }
    >
      {text ? (
        <pre class="output" ref={box} tabIndex={0} aria-label="Output">
          {plain(text)}
        </pre>
      ) : (
        <Empty title={told ? (told.is_live ? "Nothing written yet." : "It wrote nothing.") : (problem?.message ?? "Nothing written yet.")} />
      )}
    </Panel>
  );
}

function Value({ title, value }: { title: string; value: Json }): JSX.Element | null {
  if (value === null) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return (
    <Panel title={title}>
      <pre class="value" tabIndex={0} aria-label={title}>
        {text}
      </pre>
    </Panel>
  );
}

function Actions({ job }: { job: Job }): JSX.Element {
  const held = job.status === "active" ? job.worker_id : null;
  const holder = useLook<Worker>(useMay() && held ? `workers/${held}` : null, []);
  const byHand = holder.data !== null && holder.data.slot === null;
  return (
    <>
      {byHand ? <Do deed={releaseDeed(job)} /> : null}
      {jobDeeds(job).map((deed) => (
        <Do key={deed.label} deed={deed} />
      ))}
    </>
  );
}

export function JobPage({ id }: { id: string }): JSX.Element {
  const { connection } = useFeed();
  const look = useLook<Job>(`jobs/${encodeURIComponent(id)}`, ["queue", "worker", "job"], 400, 5000);
  const runs = useLook<Run[]>(`jobs/${encodeURIComponent(id)}/runs`, ["queue", "worker", "job"], 500, 5000);
  const why = useLook<{ why: string }>(`jobs/${encodeURIComponent(id)}/why`, ["queue", "worker", "job"], 1000, 5000);
  const job = look.data;
  return (
    <Page title={job ? job.title : `Job ${id}`} about={job ? `Job ${job.id}` : null} actions={job && !isOwn(job) ? <Actions job={job} /> : null}>
      {look.problem?.status === 404 && connection === "open" && !job ? (
        <Empty title={`There is no job ${id}.`}>It may have been pruned, or came from a source and is done.</Empty>
      ) : (
        <Shown look={look}>
          {(found) => (
            <>
              <p class="why" role="status">
                {why.data?.why ?? " "}
              </p>
              <Panel title="Facts">
                <Facts job={found} />
              </Panel>
              {found.error ? <Value title="Error" value={found.error} /> : null}
              {found.note ? <Value title="Note" value={found.note} /> : null}
              <Panel title="Runs">
                <Shown look={runs}>{(all) => <Timeline runs={all} job={found} />}</Shown>
              </Panel>
              <Dependencies id={found.id} />
              {found.attempts > 0 || found.status === "active" ? <Written job={found} /> : null}
              <div class="columns even">
                <Value title="Payload" value={found.payload} />
                <Value title="Result" value={found.result} />
              </div>
            </>
          )}
        </Shown>
      )}
    </Page>
  );
}
