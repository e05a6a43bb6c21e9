// Jobs that wait for each other, placed in layers from left to right: what is needed stands left of what needs it.
export interface Spot {
  id: number;
  column: number;
  row: number;
}

export function layout(ids: number[], edges: [job: number, needs: number][]): Spot[] {
  const needs = new Map<number, number[]>(ids.map((id) => [id, []]));
  for (const [job, needed] of edges) if (needs.has(job) && needs.has(needed)) needs.get(job)?.push(needed);
  const columns = new Map<number, number>();
  const visit = (id: number, above: Set<number>): number => {
    const known = columns.get(id);
    if (known !== undefined) return known;
    if (above.has(id)) return 0; // a circle cannot be, but is no reason to hang
    const column = Math.max(-1, ...(needs.get(id) ?? []).map((each) => visit(each, new Set([...above, id])))) + 1;
    columns.set(id, column);
    return column;
  };
  const filled = new Map<number, number>();
  return [...ids]
    .sort((a, b) => a - b)
    .map((id) => {
      const column = visit(id, new Set());
      const row = filled.get(column) ?? 0;
      filled.set(column, row + 1);
      return { id, column, row };
    });
}
