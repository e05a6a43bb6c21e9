// Requests to the API below this page; an answer that is not good is thrown as a Problem that says why.
export class Problem extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }

  // The server is there, and its store is not.
  get isOfStore(): boolean {
    return this.status === 503;
  }
}

export interface Answer<T> {
  data: T;
  next: string | null;
}

export async function ask<T>(path: string, signal?: AbortSignal): Promise<Answer<T>> {
  return answered<T>(await reach(path, signal ? { signal } : {}));
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await ask<T>(path, signal)).data;
}

export async function send<T>(method: "POST" | "PATCH" | "DELETE", path: string, body?: object): Promise<T> {
  const init: RequestInit = { method };
  if (method !== "DELETE") {
    init.body = JSON.stringify(body ?? {});
    init.headers = { "Content-Type": "application/json" };
  }
  return (await answered<T>(await reach(path, init))).data;
}

export function post(path: string, body?: object): Promise<unknown> {
  return send("POST", path, body);
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`api/v1/${path}`, { ...init, credentials: "same-origin", cache: "no-store" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "the server cannot be reached");
  }
}

async function answered<T>(response: Response): Promise<Answer<T>> {
  const text = await response.text();
  if (!response.ok) throw new Problem(response.status, detailOf(text) ?? `the server answered ${response.status}`);
  return { data: JSON.parse(text) as T, next: nextOf(response.headers.get("Link")) };
}

function detailOf(text: string): string | null {
  try {
    const told: unknown = JSON.parse(text);
    const detail = typeof told === "object" && told !== null && "detail" in told ? told.detail : null;
    return typeof detail === "string" ? detail : null;
  } catch {
    return null;
  }
}

// The path of the next page, as its link says it.
export function nextOf(link: string | null): string | null {
  const found = link?.match(/<[^>]*\/api\/v1\/([^>]+)>; rel="next"/);
  return found?.[1] ?? null;
}

// A path with those parameters that say something.
export function withQuery(path: string, query: Record<string, string | number | boolean | null | undefined>): string {
  const parts = Object.entries(query)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return parts.length ? `${path}?${parts.join("&")}` : path;
}
