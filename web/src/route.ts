// Where in the dashboard one is: the part of the address behind `#`, so that one page serves all.
export interface Place {
  page: string;
  which: string | null;
  query: URLSearchParams;
}

export function read(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...rest] = path.split("/");
  return { page: page || "overview", which: rest.length ? safely(rest.join("/")) : null, query: new URLSearchParams(query) };
}

function safely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function to(page: string, which?: string | number | null, query?: Record<string, string | null>): string {
  const place = which === undefined || which === null ? `#/${page}` : `#/${page}/${encodeURIComponent(String(which))}`;
  const told = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value) told.set(name, value);
  return told.size ? `${place}?${told}` : place;
}
