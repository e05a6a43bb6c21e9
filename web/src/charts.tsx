// Small charts over the last minutes.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Series } from "./types.ts";

export interface Line {
  label: string;
  values: Series;
  tone: "accent" | "soft" | "bad";
  fill?: boolean;
}

const HEIGHT = 112;

// A canvas knows no variables, nor which theme it is in: an element is asked what it would show.
function colour(name: string): string {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function Chart({ times, lines, say, label, theme }: { times: number[]; lines: Line[]; say: (value: number) => string; label: string; theme: string }): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const speaker = useRef(say);
  speaker.current = say;
  useEffect(() => {
    const box = place.current;
    if (!box) return;
    const tones = { accent: colour("accent"), soft: colour("soft-line"), bad: colour("bad") };
    const axis: uPlot.Axis = {
      stroke: colour("quiet"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { show: false },
      font: "11px Inter, system-ui, sans-serif",
    };
    chart.current = new uPlot(
      {
        width: roomOf(box),
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        padding: [8, 12, 0, 0],
        scales: { x: { time: false, range: (_, from) => [from, 0] }, y: { range: (_, __, max) => [0, (max || 1) * 1.15] } },
        axes: [
          { ...axis, grid: { show: false }, splits: (_, __, from) => marksOf(from), values: (_, all) => all.map(ago), size: 22 },
          { ...axis, values: (_, all) => all.map((value) => speaker.current(value)), size: 58, space: 34 },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.label,
            stroke: tones[line.tone],
            width: 1.5,
            points: { show: false },
            ...(line.fill ? { fill: tones[line.tone].replace(")", ", 0.13)") } : {}),
          })),
        ],
      },
      [times, ...lines.map((line) => line.values)],
      box,
    );
    const sized = new ResizeObserver(() => chart.current?.setSize({ width: roomOf(box), height: HEIGHT }));
    sized.observe(box);
    return () => {
      sized.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [theme]);
  useEffect(() => {
    chart.current?.setData([times, ...lines.map((line) => line.values)]);
  }, [times, lines]);
  return <div class="chart" ref={place} role="img" aria-label={label} />;
}

function roomOf(box: HTMLElement): number {
  return Math.max(120, box.clientWidth - 16);
}

// Three or four round marks, whatever the span.
function marksOf(from: number): number[] {
  const step = [20, 30, 60, 120].find((each) => -from / each <= 4) ?? 120;
  const found = [];
  for (let at = 0; at >= from; at -= step) found.unshift(at);
  return found;
}

function ago(at: number): string {
  if (at === 0) return "now";
  return at % 60 ? `\u2212${-at} s` : `\u2212${-at / 60} min`;
}
