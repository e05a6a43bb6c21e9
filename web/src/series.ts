// Series of figures, as charts want them.
import type { Series } from "./types.ts";

// A figure holds for a few steps more where none is known, so that a line of rare figures can be seen; then there is a gap.
export function bridged(series: Series, most = 5): Series {
  let known: number | null = null;
  let age = 0;
  return series.map((value) => {
    age = value === null ? age + 1 : 0;
    known = value ?? (age <= most ? known : null);
    return known;
  });
}

export function perSecond(series: Series, step: number): Series {
  return series.map((value) => (value === null ? null : value / step));
}

export function last(series: Series): number | null {
  for (let place = series.length - 1; place >= 0; place -= 1) {
    const value = series[place];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

// From which step on there is something to see; a minute is shown in any case.
export function begun(all: Series[], least: number): number {
  const length = Math.max(0, ...all.map((series) => series.length));
  const first = Math.min(length, ...all.map((series) => series.findIndex((value) => value)).filter((place) => place >= 0));
  return Math.max(0, Math.min(first - 1, length - least));
}

// The moments of the steps, in seconds before now.
export function agos(length: number, step: number): number[] {
  return Array.from({ length }, (_, place) => (place - length) * step);
}
