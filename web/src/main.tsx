// The frame around every page: where one can go, how all is, and whether this page still hears from the server.
import { render, type ComponentChildren, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import "./style.css";
import { shortly } from "./format.ts";
import { useFeed, usePlace } from "./hooks.ts";
import { feed } from "./live.ts";
import { Events } from "./pages/events.tsx";
import { Hosts } from "./pages/hosts.tsx";
import { JobPage } from "./pages/job.tsx";
import { Jobs } from "./pages/jobs.tsx";
import { Overview } from "./pages/overview.tsx";
import { Queues } from "./pages/queues.tsx";
import { Schedules } from "./pages/schedules.tsx";
import { SlotPage } from "./pages/slot.tsx";
import { Sources } from "./pages/sources.tsx";
import { Workers } from "./pages/workers.tsx";
import { to, type Place } from "./route.ts";
import { Empty, Page, Since, State, Toasts } from "./ui.tsx";

const PAGES: [page: string, title: string][] = [
  ["overview", "Overview"],
  ["jobs", "Jobs"],
  ["queues", "Queues"],
  ["workers", "Workers"],
  ["hosts", "Hosts"],
  ["sources", "Sources"],
  ["schedules", "Schedules"],
  ["events", "Events"],
];
const THEMES = ["system", "light", "dark"];

function Body({ place, theme }: { place: Place; theme: string }): JSX.Element {
  switch (place.page) {
    case "overview":
      return <Overview theme={theme} />;
    case "jobs":
      return place.which === null ? <Jobs query={place.query} /> : <JobPage key={place.which} id={place.which} />;
    case "queues":
      return <Queues which={place.which} />;
    case "workers":
      return place.which === null ? <Workers query={place.query} /> : <SlotPage key={place.which} name={place.which} />;
    case "hosts":
      return <Hosts />;
    case "sources":
      return <Sources />;
    case "schedules":
      return <Schedules />;
    case "events":
      return <Events query={place.query} />;
    default:
      return (
        <Page title="Nothing here">
          <Empty title={`There is no page ${place.page.slice(0, 60)}.`}>
            <a href={to("overview")}>Back to the overview</a>
          </Empty>
        </Page>
      );
  }
}

function useTheme(): [string, () => void] {
  const [theme, setTheme] = useState(() => localStorage.getItem("rota-theme") ?? "system");
  document.documentElement.dataset["theme"] = theme;
  const turn = (): void => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "system";
    localStorage.setItem("rota-theme", next);
    document.documentElement.dataset["theme"] = next;
    setTheme(next);
  };
  return [theme, turn];
}

// Light or dark as it is in force, whether chosen here or by the system.
function useInForce(theme: string): string {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = (): void => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return theme === "system" ? (isDark ? "dark" : "light") : theme;
}

function Banner({ state, children }: { state: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="banner" role="alert">
      <State state={state} />
      <span>{children}</span>
    </div>
  );
}

// What is wrong with all of it, the worst alone: a store or a server that is away, else what the system's health says.
function Trouble(): JSX.Element | null {
  const { connection, lostAt, trouble, health } = useFeed();
  if (trouble !== null) {
    return <Banner state="error">The store does not answer: {trouble}. What you see is as it was; this page goes on by itself once it is back.</Banner>;
  }
  if (connection === "lost") {
    return (
      <Banner state="unreachable">
        The server does not answer. What you see is as it was
        {lostAt === null ? "" : " "}
        {lostAt === null ? null : <Since at={lostAt - feed.skew} />}
        {lostAt === null ? "; " : " ago; "}
        this page tries again every second.
      </Banner>
    );
  }
  return connection === "open" && health?.status === "error" ? <Banner state="error">{shortly(health.errors)}</Banner> : null;
}

function Closed(): JSX.Element {
  return (
    <main class="closed" id="main">
      <h1>This session is over</h1>
      <p>Run this on the machine where rota runs, in the folder of its database:</p>
      <pre>rota open</pre>
      <p>This page goes on by itself once you are in again.</p>
    </main>
  );
}

function Frame({ children, place, theme, turn }: { children: ComponentChildren; place: Place; theme: string; turn: () => void }): JSX.Element {
  const { health, me, connection } = useFeed();
  // In a narrow window the menu is wider than its place.
  useEffect(() => document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [place.page]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
        To the content
      </a>
      <nav aria-label="Pages">
        <a class="brand" href={to("overview")}>
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="7" />
            <path d="M16 7a9 9 0 1 1-8.2 5.3M7 6.5v6h6" />
            <circle cx="16" cy="16" r="2.6" />
          </svg>
          rota
        </a>
        <ul>
          {PAGES.map(([page, title]) => (
            <li key={page}>
              <a href={to(page)} aria-current={place.page === page ? "page" : undefined}>
                {title}
              </a>
            </li>
          ))}
        </ul>
        <div class="foot">
          <span class="health" title={health?.errors.join("\n") ?? ""}>
            {connection === "open" && health ? <State state={health.status} /> : <State state={connection === "lost" ? "unreachable" : "starting"} />}
          </span>
          {me ? <span class="who" title={`token ${me.name}: ${me.scopes.join(", ")}`}>{me.name}</span> : null}
          <button type="button" class="theme" onClick={turn}>
            <span class="quiet">Theme</span> {theme}
          </button>
        </div>
      </nav>
      <main id="main" tabIndex={-1}>
        <Trouble />
        {children}
      </main>
      <Toasts />
    </>
  );
}

function App(): JSX.Element {
  const place = usePlace();
  const { connection } = useFeed();
  const [theme, turn] = useTheme();
  const inForce = useInForce(theme);
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const search = document.querySelector<HTMLInputElement>("input[type=search]");
      event.preventDefault();
      if (search) search.focus();
      else location.hash = to("jobs");
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  if (connection === "closed") return <Closed />;
  return (
    <Frame place={place} theme={theme} turn={turn}>
      <Body place={place} theme={inForce} />
    </Frame>
  );
}

feed.start();
const root = document.getElementById("app");
if (root) render(<App />, root);
