import type { JSX } from "preact";
import { useLook } from "../hooks.ts";
import type { Crew, Notice, Orchestrator } from "../types.ts";
import { Ago, Do, Empty, Page, Panel, post, Shown, State, Table } from "../ui.tsx";

interface Row {
  host: string;
  crew: string;
  orchestrator: Orchestrator | null;
  up: number;
  wanted: number;
  trouble: string | null;
}

// One row per host and crew: those whose orchestrator lives, and those that left slots behind.
export function hostRows(crew: Crew, notices: Notice[]): Row[] {
  const rows = new Map<string, Row>();
  const row = (host: string, name: string): Row => {
    const key = `${host} ${name}`;
    const made = rows.get(key) ?? { host, crew: name, orchestrator: null, up: 0, wanted: 0, trouble: null };
    rows.set(key, made);
    return made;
  };
  for (const each of crew.orchestrators) row(each.hostname, each.crew).orchestrator = each;
  for (const slot of crew.slots) {
    if (!slot.wanted || slot.host === null) continue;
    const one = row(slot.host, slot.crew);
    one.wanted += 1;
    one.up += Number(slot.status === "up");
  }
  for (const notice of notices.filter((each) => each.noun === "host")) {
    for (const one of rows.values()) if (one.host === notice.which && notice.text.includes(`crew ${one.crew} `)) one.trouble = notice.text;
  }
  return [...rows.values()].sort((a, b) => (a.host + a.crew < b.host + b.crew ? -1 : 1));
}

export function Hosts(): JSX.Element {
  const look = useLook<Crew>("orchestrator", ["worker", "health"], 1500, 5000);
  const notices = useLook<Notice[]>("attention", ["health"], 2000, 5000);
  return (
    <Page
      title="Hosts"
      about="Where orchestrators keep crews alive"
      actions={
        <Do
          deed={{
            label: "Reconcile",
            title: "",
            did: "the store was looked through",
            nouns: ["worker", "queue", "job", "health"],
            run: () => post("orchestrator/reconcile"),
          }}
        />
      }
    >
      <Shown look={look}>
        {(crew) => {
          const rows = hostRows(crew, notices.data ?? []);
          return (
            <>
              <Panel title="Crews by host">
                {rows.length === 0 ? (
                  <Empty title="No orchestrator runs.">
                    <code>rota orchestrator start</code> starts one here.
                  </Empty>
                ) : (
                  <Table
                    label="Hosts"
                    rows={rows}
                    keyOf={(row) => `${row.host} ${row.crew}`}
                    columns={[
                      { head: "Host", kind: "long", cell: (row) => <span title={row.host}>{row.host}</span> },
                      { head: "Crew", kind: "long", cell: (row) => row.crew },
                      { head: "State", cell: (row) => <State state={row.trouble ? "unreachable" : (row.orchestrator?.status ?? "stopped")} /> },
                      { head: "Slots up", kind: "number", cell: (row) => `${row.up} of ${row.wanted}` },
                      { head: "Process", kind: "number", hide: true, cell: (row) => row.orchestrator?.pid ?? "–" },
                      { head: "Version", hide: true, cell: (row) => row.orchestrator?.version ?? "–" },
                      { head: "Runs since", kind: "number", cell: (row) => <Ago at={row.orchestrator?.started_at ?? null} /> },
                      { head: "Reconciled", kind: "number", hide: true, cell: (row) => <Ago at={row.orchestrator?.last_reconcile_at ?? null} /> },
                      {
                        head: "Actions",
                        kind: "deeds",
                        cell: (row) =>
                          row.orchestrator ? (
                            <Do
                              small
                              deed={{
                                label: "Drain",
                                title: `Drain crew ${row.crew}?`,
                                about: "It finishes what it holds, however long that takes, and ends. Only a crew on the server's own host hears it.",
                                danger: true,
                                did: `crew ${row.crew} drains`,
                                nouns: ["worker", "health"],
                                run: () => post("orchestrator/drain", { crew: row.crew }),
                              }}
                            />
                          ) : null,
                      },
                    ]}
                  />
                )}
              </Panel>
              <details class="panel">
                <summary>Settings in force</summary>
                <dl class="facts">
                  {Object.entries(crew.settings).map(([name, value]) => (
                    <div key={name}>
                      <dt>{name}</dt>
                      <dd>{value === null ? "–" : String(value)}</dd>
                    </div>
                  ))}
                </dl>
              </details>
            </>
          );
        }}
      </Shown>
    </Page>
  );
}
