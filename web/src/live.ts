// The live feed: one connection for all pages. What it says is kept here, and pages hear of changes a few times a second.
import { get, Problem } from "./api.ts";
import type { Health, Me, QueueState, WorkerState } from "./types.ts";

export type Connection = "connecting" | "open" | "lost" | "closed";
export type Noun = "queue" | "worker" | "health" | "source" | "schedule" | "job";

interface Message {
  type: string;
  timestamp: number;
  topic: string;
  queue?: QueueState;
  worker?: WorkerState;
  health?: Health;
}

const TOPICS = ["queue:status", "queue:*:status", "worker:*:status", "source:*:status", "schedule:*:status", "system:health"];
const TOLD_EVERY = 250;
const SILENT = 40_000; // the server says something every 15 s, and be it only that it is alive
const ENDED = new Set(["stopped", "dead", "gone"]);

export class Feed {
  queues = new Map<string, QueueState>();
  workers = new Map<string, WorkerState>();
  all: QueueState | null = null;
  health: Health | null = null;
  me: Me | null = null;
  isWhole = false; // whether all has been told since the connection was opened; its health comes last
  connection: Connection = "connecting";
  lostAt: number | null = null;
  skew = 0; // how far this machine's clock is ahead of the server's
  readonly changes: Record<Noun, number> = { queue: 0, worker: 0, health: 0, source: 0, schedule: 0, job: 0 };
  private readonly listeners = new Set<() => void>();
  private stream: EventSource | null = null;
  private isFresh = true;
  private readonly failing = new Map<string, string>();
  private isTelling = false;
  private heardAt = Date.now();

  start(): void {
    void this.open();
    setInterval(() => {
      if (this.connection === "open" && Date.now() - this.heardAt > SILENT) this.reopen();
    }, 5000);
  }

  // Hear of every change; what comes back ends that.
  hear(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  // Something was done here: let the pages look again at once.
  touch(...nouns: Noun[]): void {
    for (const noun of nouns) this.changes[noun] += 1;
    this.tell();
  }

  // What was asked for at a path failed because of the store, or did not.
  storeSaid(path: string, problem: string | null): void {
    const before = this.trouble;
    if (problem === null) this.failing.delete(path);
    else this.failing.set(path, problem);
    if (this.trouble !== before) this.tell();
  }

  // Why the server cannot say how things stand, if it cannot.
  get trouble(): string | null {
    const [first = null] = this.failing.values();
    return first;
  }

  private async open(): Promise<void> {
    try {
      this.me = await get<Me>("me");
      this.storeSaid("me", null);
    } catch (problem) {
      if (problem instanceof Problem) this.storeSaid("me", problem.isOfStore ? problem.message : null);
      const refused = problem instanceof Problem && (problem.status === 401 || problem.status === 403);
      this.become(refused ? "closed" : "lost");
      setTimeout(() => void this.open(), refused ? 10_000 : 1000);
      return;
    }
    const topics = TOPICS.map(encodeURIComponent).join(",");
    const stream = new EventSource(`api/v1/events?topics=${topics}`);
    this.stream = stream;
    stream.onopen = () => {
      this.isFresh = true;
      this.heardAt = Date.now();
      this.become("open");
    };
    stream.addEventListener("alive", () => {
      this.heardAt = Date.now();
    });
    stream.onmessage = (event: MessageEvent<string>) => this.take(JSON.parse(event.data) as Message);
    stream.onerror = () => {
      if (this.stream !== stream) return;
      this.become("lost");
      stream.close();
      setTimeout(() => void this.open(), 1000);
    };
  }

  private reopen(): void {
    this.stream?.close();
    this.become("lost");
    void this.open();
  }

  private become(connection: Connection): void {
    if (connection === "lost" && this.connection === "open") this.lostAt = Date.now();
    if (connection === "open") this.touch("queue", "worker", "health", "source", "schedule", "job");
    this.connection = connection;
    this.tell();
  }

  // A new connection begins with how all is: whatever it does not name is gone.
  private take(message: Message): void {
    this.heardAt = Date.now();
    if (this.isFresh || message.type === "resync") {
      this.isFresh = this.isWhole = false;
      this.queues.clear();
      this.workers.clear();
      this.touch("job");
    }
    if (message.type !== "resync") this.skew = Date.now() - message.timestamp;
    if (message.queue) this.takeQueue(message.queue);
    else if (message.worker) this.takeWorker(message.worker, message);
    else if (message.health) {
      this.health = message.health;
      this.isWhole = true;
    }
    const noun = message.topic.split(":", 1)[0];
    this.touch(noun === "system" ? "health" : noun === "queue" || noun === "worker" || noun === "source" || noun === "schedule" ? noun : "job");
  }

  private takeQueue(state: QueueState): void {
    if (state.queue_type === null) this.all = state;
    else this.queues.set(state.queue_type, state);
  }

  private takeWorker(state: WorkerState, message: Message): void {
    if (ENDED.has(state.status)) {
      this.workers.delete(state.component);
      return;
    }
    const before = this.workers.get(state.component);
    const same = before && before.status === state.status && before.current_job === state.current_job;
    const since = same ? before.since : message.type === "snapshot" ? undefined : message.timestamp;
    this.workers.set(state.component, since === undefined ? state : { ...state, since });
  }

  private tell(): void {
    if (this.isTelling) return;
    this.isTelling = true;
    setTimeout(() => {
      this.isTelling = false;
      for (const listener of [...this.listeners]) listener();
    }, TOLD_EVERY);
  }
}

export const feed = new Feed();
