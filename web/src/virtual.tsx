// Lists and grids of any length: only what is in sight is in the document.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Window {
  first: number;
  last: number;
  before: number;
  after: number;
}

// Which rows are in sight, a few more on both sides, and how much room the others take.
export function inSight(count: number, height: number, top: number, room: number, spare = 4): Window {
  const first = Math.min(Math.max(0, Math.floor(top / height) - spare), Math.max(0, count - 1));
  const last = Math.min(count, Math.ceil((top + room) / height) + spare);
  return { first, last, before: first * height, after: Math.max(0, count - last) * height };
}

export function Grid<T>({ items, draw, keyOf, width, height, room, label }: { items: T[]; draw: (item: T) => ComponentChildren; keyOf: (item: T) => string; width: number; height: number; room: number; label: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [space, setSpace] = useState(900);
  useEffect(() => {
    const sized = new ResizeObserver(() => setSpace(box.current?.clientWidth ?? 900));
    if (box.current) sized.observe(box.current);
    return () => sized.disconnect();
  }, []);
  const across = Math.max(1, Math.floor(space / width));
  const rows = Math.ceil(items.length / across);
  const sight = inSight(rows, height, top, room);
  const drawn = [];
  for (let row = sight.first; row < sight.last; row += 1) drawn.push(items.slice(row * across, (row + 1) * across));
  const isScrolled = rows * height > room;
  return (
    <div
      ref={box}
      class="grid"
      role="group"
      aria-label={label}
      tabIndex={isScrolled ? 0 : -1}
      style={{ maxHeight: `${room}px` }}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: `${sight.before}px` }} />
      {drawn.map((row) => (
        <div key={row[0] === undefined ? "" : keyOf(row[0])} class="row" style={{ height: `${height}px`, gridTemplateColumns: `repeat(${across}, minmax(0, 1fr))` }}>
          {row.map((item) => draw(item))}
        </div>
      ))}
      <div style={{ height: `${sight.after}px` }} />
    </div>
  );
}
