// Numbers, durations and moments as people read them.
const SECOND = 1000;

export function count(value: number): string {
  return value.toLocaleString("en-GB");
}

// Seconds in at most two units: 0.4 ms, 12 ms, 3.2 s, 4 min 5 s, 2 h 10 min, 3 d 4 h.
export function duration(seconds: number): string {
  if (seconds < 0.001) return seconds <= 0 ? "0 s" : `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86_400) return two(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return two(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
}

function two(large: number, unit: string, small: number, lesser: string): string {
  return small ? `${large} ${unit} ${small} ${lesser}` : `${large} ${unit}`;
}

// How long ago or how far ahead a moment is: "now", "12 s ago", "in 3 min".
export function relative(at: number, now: number): string {
  const seconds = Math.round((now - at) / SECOND);
  if (Math.abs(seconds) < 1) return "now";
  const text = coarse(Math.abs(seconds));
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

// One unit is enough for how long ago something was.
export function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

// A clock that runs: 0:07, 12:31, 3:04:05.
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const pad = (value: number): string => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const rest = `${pad(Math.floor((whole % 3600) / 60))}:${pad(whole % 60)}`;
  return hours ? `${hours}:${rest}` : rest.replace(/^0/, "");
}

export function moment(text: string | null): number | null {
  return text === null ? null : Date.parse(text);
}

export function absolute(at: number): string {
  return new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");
}

// A rate that keeps its width: 0, 0.25/s, 12/s, 1,204/s; slow ones per minute.
export function rate(perSecond: number): string {
  if (perSecond <= 0) return "0/s";
  if (perSecond < 0.1) return `${(perSecond * 60).toFixed(1)}/min`;
  if (perSecond < 1) return `${Number(perSecond.toFixed(2))}/s`;
  return perSecond < 10 ? `${perSecond.toFixed(1)}/s` : `${count(Math.round(perSecond))}/s`;
}

// The rate of one queue, which may be called `constructor`.
export function rateOf(rates: Record<string, number> | undefined, queue: string): number {
  return rates && Object.hasOwn(rates, queue) ? (rates[queue] ?? 0) : 0;
}

export function bytes(value: number): string {
  if (value < 1024) return `${value} B`;
  return value < 1_048_576 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / 1_048_576).toFixed(1)} MiB`;
}

// How long what waits will take: at the pace of late if anything ended, else at the usual time per job.
export function timeLeft(queue: { pending: number; eta: number } | undefined, perSecond: number): string {
  if (!queue || queue.pending === 0) return "–";
  if (perSecond > 0) return duration(queue.pending / perSecond);
  return queue.eta > 0 ? duration(queue.eta) : "–";
}

// What a program wrote for a terminal, as text: without the sequences that steer one, and of an overwritten line the last.
export function plain(text: string): string {
  const still = text.replace(/\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])/g, "").replace(/\r\n/g, "\n");
  return still.replace(/[^\n]*\r(?=[^\n])/g, "").replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
}

// The first of many, and how many more there are.
export function shortly(texts: string[], most = 2): string {
  const more = texts.length - most;
  return texts.slice(0, most).join("; ") + (more > 0 ? `; and ${count(more)} more` : "");
}

// A setting as it would be given.
export function setting(value: string | number | boolean | object | null): string {
  if (value === null || typeof value !== "object") return value === null || value === "" ? "–" : String(value);
  return Object.entries(value).map(([name, each]) => `${name}=${String(each)}`).join(", ") || "–";
}
