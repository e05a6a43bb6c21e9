import type { JSX } from "preact";
import { post, send } from "../api.ts";
import { useLook } from "../hooks.ts";
import { to } from "../route.ts";
import type { Schedule } from "../types.ts";
import { Ago, Do, Empty, JobLink, Page, Panel, Shown, State, Table } from "../ui.tsx";

function Deeds({ schedule }: { schedule: Schedule }): JSX.Element {
  const path = `schedules/${encodeURIComponent(schedule.name)}`;
  const back = schedule.declared ? " An app declares it, so it comes back with that app's next worker." : "";
  return (
    <div class="side">
      <Do small deed={{ label: "Run", title: "", did: `the job of ${schedule.name} was added`, nouns: ["schedule", "queue"], run: () => post(`${path}/run`) }} />
      {schedule.paused ? (
        <Do small deed={{ label: "Resume", title: "", did: `${schedule.name} is resumed`, nouns: ["schedule"], run: () => post(`${path}/resume`) }} />
      ) : (
        <Do small deed={{ label: "Pause", title: "", did: `${schedule.name} is paused`, nouns: ["schedule"], run: () => post(`${path}/pause`) }} />
      )}
      <Do
        small
        deed={{
          label: "Remove",
          title: `Remove schedule ${schedule.name}?`,
          about: `Its jobs stay.${back}`,
          danger: true,
          did: `${schedule.name} is removed`,
          nouns: ["schedule"],
          run: () => send("DELETE", path),
        }}
      />
    </div>
  );
}

export function Schedules(): JSX.Element {
  const look = useLook<Schedule[]>("schedules", ["schedule"], 1000);
  return (
    <Page title="Schedules" about="Jobs that are added by the clock">
      <Panel title="Schedules">
        <Shown look={look}>
          {(schedules) =>
            schedules.length === 0 ? (
              <Empty title="No schedules.">
                <code>@app.task(cron="0 2 * * *")</code> declares one, and <code>rota schedule add</code> makes one by hand.
              </Empty>
            ) : (
              <Table
                label="Schedules"
                rows={schedules}
                keyOf={(each) => each.name}
                columns={[
                  { head: "Schedule", kind: "long", cell: (each) => <span title={each.declared ? "declared by an app" : "added by hand"}>{each.name}</span> },
                  { head: "State", cell: (each) => <State state={each.paused ? "paused" : each.error ? "late" : "open"} /> },
                  { head: "Cron", cell: (each) => <code title={each.timezone}>{each.cron}</code> },
                  { head: "Queue", hide: true, cell: (each) => <a href={to("jobs", null, { queue: each.queue })}>{each.queue}</a> },
                  { head: "Next", kind: "number", cell: (each) => <Ago at={each.next_at} /> },
                  { head: "Last", kind: "number", cell: (each) => <Ago at={each.last_at} /> },
                  { head: "Last job", cell: (each) => (each.last_job === null ? "–" : <JobLink id={each.last_job} />) },
                  { head: "Ended", hide: true, cell: (each) => (each.last_status === null ? "–" : <State state={each.last_status} />) },
                  { head: "Actions", kind: "wide", cell: (each) => <Deeds schedule={each} /> },
                ]}
              />
            )
          }
        </Shown>
        {(look.data ?? []).flatMap((each) =>
          [each.error, each.pause_reason].map((said, n) =>
            said === null ? null : (
              <p key={`${each.name} ${n}`} class="said">
                {each.name}: {said}
              </p>
            ),
          ),
        )}
      </Panel>
    </Page>
  );
}
