import type { JSX } from "preact";
import { post } from "../api.ts";
import { drainDeed } from "../deeds.ts";
import { setting } from "../format.ts";
import { useLook } from "../hooks.ts";
import { hostRows } from "../places.ts";
import type { Crew, Notice } from "../types.ts";
import { Ago, Do, Empty, Page, Panel, Shown, State, Table } from "../ui.tsx";

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
                    keyOf={(row) => `${row.hostId} ${row.crew}`}
                    columns={[
                      { head: "Host", kind: "long", cell: (row) => <span title={`${row.host}, id ${row.hostId}`}>{row.host}</span> },
                      { head: "Crew", kind: "long", cell: (row) => row.crew },
                      { head: "State", cell: (row) => <State state={row.trouble ? "unreachable" : (row.orchestrator?.status ?? "stopped")} /> },
                      { head: "Slots up", kind: "number", cell: (row) => `${row.up} of ${row.wanted}` },
                      { head: "Process", kind: "number", hide: true, cell: (row) => row.orchestrator?.pid ?? "–" },
                      { head: "Version", kind: "long", hide: true, cell: (row) => row.orchestrator?.version ?? "–" },
                      { head: "Runs since", kind: "number", hide: true, cell: (row) => <Ago at={row.orchestrator?.started_at ?? null} /> },
                      { head: "Reconciled", kind: "number", hide: true, cell: (row) => <Ago at={row.orchestrator?.last_reconcile_at ?? null} /> },
                      {
                        head: "Actions",
                        kind: "deeds",
                        cell: (row) => (row.orchestrator ? <Do small deed={drainDeed(row)} /> : null),
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
                      <dd>{setting(value)}</dd>
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
