// Where spans of time stand on a line: pure, so that it can be tested.
export interface Span {
  from: number;
  until: number | null; // null: it goes on
}

export interface Placed {
  left: number; // shares of the whole width, 0 to 1
  width: number;
}

export const NARROWEST = 0.004;

export function bounds(spans: Span[], now: number): [from: number, until: number] {
  const from = Math.min(...spans.map((span) => span.from));
  const until = Math.max(...spans.map((span) => span.until ?? now));
  return spans.length ? [from, Math.max(until, from + 1)] : [now - 1, now];
}

export function placed(span: Span, [from, until]: [number, number], now: number): Placed {
  const whole = until - from;
  const left = Math.min(1 - NARROWEST, Math.max(0, (span.from - from) / whole));
  const width = Math.max(NARROWEST, ((span.until ?? now) - span.from) / whole);
  return { left, width: Math.min(width, 1 - left) };
}

// At most so many round marks between two moments, in milliseconds.
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 864e5, 6048e5];

export function marks([from, until]: [number, number], most = 6): number[] {
  const step = STEPS.find((each) => (until - from) / each <= most) ?? until - from;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) found.push(at);
  return found;
}
