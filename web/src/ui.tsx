// Small parts that every page is made of.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api.ts";
import { absolute, clock, moment, relative } from "./format.ts";
import { useFeed, useTicking, type Looked } from "./hooks.ts";
import { feed, type Noun } from "./live.ts";
import { to } from "./route.ts";

// Each state has a shape of its own, so that colour is never all that tells it.
const SHAPES: Record<string, string> = {
  tick: "M1.5 5.5 4 8l4.5-6",
  cross: "M2 2l6 6M8 2 2 8",
  play: "M3 1.5 8.5 5 3 8.5z",
  ring: "M5 1.2a3.8 3.8 0 1 0 .01 0z",
  dot: "M5 3.2a1.8 1.8 0 1 0 .01 0z",
  hand: "M5 1.2a3.8 3.8 0 1 0 .01 0zM5 2.8V5l1.6 1",
  bars: "M3.2 2v6M6.8 2v6",
  slash: "M5 1.2a3.8 3.8 0 1 0 .01 0zM2.4 7.6l5.2-5.2",
  warn: "M5 1 9.3 8.8H.7zM5 4v2",
  dash: "M2 5h6",
};
const STATES: Record<string, [tone: string, shape: string]> = {
  done: ["good", "tick"],
  completed: ["good", "tick"],
  healthy: ["good", "tick"],
  running: ["good", "tick"],
  live: ["good", "tick"],
  up: ["good", "tick"],
  active: ["busy", "play"],
  busy: ["busy", "play"],
  ready: ["calm", "ring"],
  idle: ["calm", "dot"],
  scheduled: ["calm", "hand"],
  blocked: ["calm", "bars"],
  paused: ["fair", "bars"],
  starting: ["fair", "hand"],
  stopping: ["fair", "hand"],
  killed: ["bad", "cross"],
  released: ["fair", "dash"],
  late: ["fair", "warn"],
  backoff: ["fair", "hand"],
  recovering: ["fair", "hand"],
  degraded: ["fair", "warn"],
  expired: ["bad", "hand"],
  failed: ["bad", "cross"],
  dead: ["bad", "cross"],
  error: ["bad", "cross"],
  unreachable: ["bad", "cross"],
  cancelled: ["calm", "slash"],
  empty: ["calm", "dash"],
  stopped: ["calm", "dash"],
};

export function toneOf(state: string): string {
  return STATES[state]?.[0] ?? "calm";
}

export function Shape({ state }: { state: string }): JSX.Element {
  const shape = STATES[state]?.[1] ?? "dot";
  return (
    <svg class={`shape ${toneOf(state)} ${shape}`} viewBox="0 0 10 10" aria-hidden="true">
      <path d={SHAPES[shape]} />
    </svg>
  );
}

export function State({ state }: { state: string }): JSX.Element {
  return (
    <span class={`state ${toneOf(state)}`}>
      <Shape state={state} />
      {state}
    </span>
  );
}

export function Ago({ at }: { at: string | null }): JSX.Element {
  const when = moment(at);
  const text = useTicking((now) => (when === null ? "–" : relative(when, now)));
  return when === null ? (
    <span class="quiet">–</span>
  ) : (
    <time dateTime={at ?? ""} title={absolute(when)}>
      {text}
    </time>
  );
}

// How long something goes on already, as a clock that runs.
export function Since({ at }: { at: number | null }): JSX.Element {
  const text = useTicking((now) => (at === null ? "" : clock((now - at) / 1000)));
  return <span class="number">{text}</span>;
}

export function JobLink({ id, title }: { id: number | string; title?: string | null }): JSX.Element {
  return (
    <a href={to("jobs", id)} class="job" title={title ?? `job ${id}`}>
      <span class="number">{`#${id}`}</span>
      {title ? ` ${title}` : null}
    </a>
  );
}

export function Page({ title, about, actions, children }: { title: string; about?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · rota`;
  }, [title]);
  return (
    <>
      <header class="page">
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {about ? <p class="about">{about}</p> : null}
        </div>
        {actions ? <div class="actions">{actions}</div> : null}
      </header>
      {children}
    </>
  );
}

export function Panel({ title, side, children, wide }: { title: string; side?: ComponentChildren; children: ComponentChildren; wide?: boolean }): JSX.Element {
  return (
    <section class={wide ? "panel wide" : "panel"} aria-label={title}>
      <header>
        <h2>{title}</h2>
        {side ? <div class="side">{side}</div> : null}
      </header>
      {children}
    </section>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p>{title}</p>
      {children ? <p class="quiet">{children}</p> : null}
    </div>
  );
}

// What was looked at: a word while the first answer is under way, then what is made of the answer, and any problem since.
// What the whole page suffers from is told once, above it.
export function Shown<T>({ look, children }: { look: Looked<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  const { connection } = useFeed();
  const told = connection === "open" && !(look.data !== null && look.problem?.isOfStore) ? look.problem : null;
  if (look.data === null && told === null) return <div class="waiting" aria-busy="true" />;
  return (
    <>
      {told ? (
        <div class="problem" role="alert">
          <Shape state="failed" />
          <span>{told.message}</span>
          <button type="button" onClick={look.again}>
            Try again
          </button>
        </div>
      ) : null}
      {look.data === null ? null : children(look.data)}
    </>
  );
}

export interface Column<T> {
  head: string;
  cell: (row: T) => ComponentChildren;
  kind?: "number" | "wide" | "deeds" | "long";
  hide?: boolean; // in a narrow window
}

export function Table<T>({ rows, columns, keyOf, label }: { rows: T[]; columns: Column<T>[]; keyOf: (row: T) => string | number; label: string }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" class={classOf(column)}>
                {column.kind === "deeds" ? <span class="hidden">{column.head}</span> : column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td key={column.head} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function classOf<T>(column: Column<T>): string {
  return [column.kind ?? "", column.hide ? "roomy" : ""].join(" ").trim();
}

// Whether whoever looks may change things; who may not sees no buttons.
export function useMay(): boolean {
  return useFeed().me?.scopes.includes("admin") ?? false;
}

export interface Field {
  name: string;
  label: string;
  value?: string;
  hint?: string;
  kind?: "text" | "number" | "long";
  needed?: boolean;
  choices?: string[];
  fills?: (choice: string) => Record<string, string>; // what other fields say once this is chosen
}

export interface Deed {
  label: string;
  verb?: string; // in the dialog, where the label is not one
  title: string;
  about?: ComponentChildren;
  fields?: Field[];
  danger?: boolean;
  did: string;
  nouns: Noun[];
  run: (said: Record<string, string>) => Promise<unknown>;
}

// A button for one deed. What destroys, or needs a word, asks once in a dialog.
export function Do({ deed, small }: { deed: Deed; small?: boolean }): JSX.Element | null {
  const [isAsking, setAsking] = useState(false);
  const [isBusy, setBusy] = useState(false);
  if (!useMay()) return null;
  const asks = deed.danger || deed.fields !== undefined;
  const act = async (said: Record<string, string>): Promise<string | null> => {
    setBusy(true);
    try {
      await deed.run(said);
      toast(deed.did, "good");
      return null;
    } catch (problem) {
      const text = problem instanceof Problem ? problem.message : String(problem);
      if (!asks) toast(text, "bad");
      return text;
    } finally {
      setBusy(false);
      feed.touch(...deed.nouns);
    }
  };
  return (
    <>
      <button
        type="button"
        class={[deed.danger ? "danger" : "", small ? "small" : ""].join(" ").trim()}
        disabled={isBusy}
        onClick={() => (asks ? setAsking(true) : void act({}))}
      >
        {deed.label}
      </button>
      {isAsking ? <Ask deed={deed} act={act} close={() => setAsking(false)} /> : null}
    </>
  );
}

// Fields are the browser's own: what somebody typed stays until they choose otherwise.
function fill(chosen: HTMLSelectElement, fills: Field["fills"]): void {
  for (const [name, value] of Object.entries(fills?.(chosen.value) ?? {})) {
    const other = chosen.form?.elements.namedItem(name);
    if (other instanceof HTMLInputElement) other.value = value;
  }
}

function Ask({ deed, act, close }: { deed: Deed; act: (said: Record<string, string>) => Promise<string | null>; close: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    const [shown, before] = [dialog.current, document.activeElement];
    shown?.showModal();
    shown?.addEventListener("close", close); // the browser closes it by itself at a second Escape
    return () => {
      // The close event comes later, when the same button may have opened the next dialog.
      shown?.removeEventListener("close", close);
      shown?.close(); // while it is open, nothing behind it takes the focus
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const said = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
    setBusy(true);
    const refused = await act(said);
    setBusy(false);
    setProblem(refused);
    if (refused === null) close();
  };
  return (
    <dialog
      ref={dialog}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      aria-labelledby="asked"
    >
      <form onSubmit={(event) => void submit(event)}>
        <h2 id="asked">{deed.title}</h2>
        {deed.about ? <p class="quiet">{deed.about}</p> : null}
        {deed.fields?.map((field) => (
          <label key={field.name}>
            <span>{field.label}</span>
            {field.choices ? (
              <select name={field.name} defaultValue={field.value ?? ""} onChange={(event) => fill(event.currentTarget, field.fills)}>
                {field.choices.map((choice) => (
                  <option key={choice} value={choice}>
                    {choice || "none"}
                  </option>
                ))}
              </select>
            ) : field.kind === "long" ? (
              <textarea name={field.name} rows={3} defaultValue={field.value ?? ""} required={field.needed} />
            ) : (
              <input name={field.name} type={field.kind ?? "text"} min={0} defaultValue={field.value ?? ""} required={field.needed} autoComplete="off" />
            )}
            {field.hint ? <small>{field.hint}</small> : null}
          </label>
        ))}
        {problem ? (
          <p class="problem" role="alert">
            {problem}
          </p>
        ) : null}
        <footer>
          <button type="button" onClick={close}>
            Leave it
          </button>
          <button type="submit" class={deed.danger ? "danger main" : "main"} disabled={isBusy}>
            {deed.verb ?? deed.label}
          </button>
        </footer>
      </form>
    </dialog>
  );
}

interface Said {
  id: number;
  text: string;
  tone: string;
}

let said: Said[] = [];
let drawn: () => void = () => undefined;

export function toast(text: string, tone: string): void {
  const one = { id: Date.now() + Math.random(), text, tone };
  said = [...said.slice(-3), one];
  drawn();
  setTimeout(
    () => {
      said = said.filter((other) => other !== one);
      drawn();
    },
    tone === "bad" ? 12_000 : 5000,
  );
}

export function Toasts(): JSX.Element {
  const [, again] = useState(0);
  useEffect(() => {
    drawn = () => again((n) => n + 1);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {said.map((one) => (
        <p key={one.id} class={one.tone}>
          <Shape state={one.tone === "bad" ? "failed" : "done"} />
          {one.text}
        </p>
      ))}
    </div>
  );
}
