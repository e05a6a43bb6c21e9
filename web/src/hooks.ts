// What components use to look at the feed, at the API and at the clock.
import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import { ask, Problem } from "./api.ts";
import { feed, type Noun } from "./live.ts";
import { read, type Place } from "./route.ts";

export function useFeed(): typeof feed {
  const [, again] = useReducer((n: number, _: void) => n + 1, 0);
  useEffect(() => feed.hear(() => again()), []);
  return feed;
}

export function usePlace(): Place {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const moved = (): void => setHash(location.hash);
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return read(hash);
}

export interface Looked<T> {
  data: T | null;
  next: string | null;
  problem: Problem | null;
  again: () => void;
}

const AFTER_A_PROBLEM = 2000;

// What the API says at a path: asked for at once, again soon after one of these nouns changed, and now and then anyway.
// What was said stays in sight while it is asked for anew; a hidden page asks nothing.
export function useLook<T>(path: string | null, nouns: Noun[], soon = 1000, anyway = 15_000): Looked<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; next: string | null; problem: Problem | null }>({
    path: null,
    data: null,
    next: null,
    problem: null,
  });
  const look = useRef<(delay: number) => void>(() => undefined);
  const watched = nouns.join();
  useEffect(() => {
    if (path === null) return;
    const ending = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isBusy = false;
    let isStale = false;
    let asked = 0;
    let wait = soon;
    let seen = "";
    const version = (): string => nouns.map((noun) => feed.changes[noun]).join();
    const run = async (): Promise<void> => {
      if (document.hidden) {
        isStale = true;
        return;
      }
      isBusy = true;
      isStale = false;
      asked = Date.now();
      seen = version();
      try {
        const answer = await ask<T>(path, ending.signal);
        setState({ path, data: answer.data, next: answer.next, problem: null });
        feed.storeSaid(path, null);
        wait = soon;
      } catch (problem) {
        if (ending.signal.aborted) return;
        wait = Math.max(soon, AFTER_A_PROBLEM);
        if (problem instanceof Problem) feed.storeSaid(path, problem.isOfStore ? problem.message : null);
        if (problem instanceof Problem) setState((was) => ({ ...(was.path === path ? was : { data: null, next: null }), path, problem }));
      }
      isBusy = false;
      schedule(isStale || version() !== seen ? wait : anyway);
    };
    const schedule = (delay: number): void => {
      if (isBusy) {
        isStale ||= delay < anyway;
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(() => void run(), Math.max(0, delay === 0 ? 0 : asked + delay - Date.now()));
    };
    look.current = schedule;
    const ends = [
      feed.hear(() => version() !== seen && schedule(wait)),
      listen(document, "visibilitychange", () => !document.hidden && schedule(soon)),
    ];
    schedule(0);
    return () => {
      ending.abort();
      feed.storeSaid(path, null);
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, [path, watched, soon, anyway]);
  const mine = state.path === path;
  return {
    data: mine ? state.data : null,
    next: mine ? state.next : null,
    problem: mine ? state.problem : null,
    again: () => look.current(0),
  };
}

function listen(target: EventTarget, name: string, listener: () => void): () => void {
  target.addEventListener(name, listener);
  return () => target.removeEventListener(name, listener);
}

const tickers = new Set<() => void>();
setInterval(() => {
  if (!document.hidden) for (const tick of [...tickers]) tick();
}, 1000);

// A text that depends on the time, made anew every second; the component is drawn again only when it differs.
export function useTicking(make: (now: number) => string): string {
  const [, again] = useReducer((n: number, _: void) => n + 1, 0);
  const text = make(Date.now() - feed.skew);
  const shown = useRef(text);
  const maker = useRef(make);
  shown.current = text;
  maker.current = make;
  useEffect(() => {
    const tick = (): void => {
      if (maker.current(Date.now() - feed.skew) !== shown.current) again();
    };
    tickers.add(tick);
    return () => void tickers.delete(tick);
  }, []);
  return text;
}
