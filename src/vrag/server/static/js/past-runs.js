/** The runs that the server keeps, as far as they were loaded; asked for again while one is running. */

import { del, get, patch, Problem } from "./api.js";
import { isOf, isUnderWay } from "./history.js";

const PAGE = 100;
const WHILE_RUNNING = 2_500;
const WHILE_AWAY = 4_000;
const OTHERWISE = 20_000;

/** @typedef {import("./history.js").Run} Run */
/** @typedef {import("./history.js").View} View */
/** @typedef {{user: string, role: string | null, admin: boolean, has_users: boolean, needed: boolean}} Session As `GET /session` tells it. */

/** @type {View} */
const FIRST_VIEW = { asker: "people", text: "", agent: "", collection: "", owner: null };

export class PastRuns {
  /** @type {Map<string, Run>} */
  #known = new Map();
  /** Ids of those that began since the list was last asked for. @type {Set<string>} */
  #fresh = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** The `before` of the next older ones. */
  #next = "";
  #begun = false;
  /** Counts the changes that were made here: what was asked for before one of them may not know it. */
  #changes = 0;
  #stopped = false;
  #lost = false;

  /** What the list shows. */
  view = FIRST_VIEW;
  /** How many the server has of people and of programs. */
  counts = { people: 0, programs: 0 };
  /** Names of those who asked; for administrators. @type {string[]} */
  owners = [];
  /** True if there are older ones. */
  more = false;
  /** The reason the server cannot list them; empty where it can. */
  fault = "";

  /**
   * @param {Session} session
   * @param {{changed: () => void, away: (away: boolean) => void, signal?: AbortSignal}} calls `away` tells whether the server
   *   answers; `signal` ends it.
   */
  constructor(session, { changed, away, signal }) {
    this.session = session;
    this.changed = changed;
    this.away = away;
    window.addEventListener("vrag:run", () => this.refresh(), { signal });
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh(), { signal });
  }

  get list() {
    return [...this.#known.values()];
  }

  /** Those of the view; of other users' shared ones, which only a link leads to, none. */
  get shown() {
    return this.list.filter((run) => this.mayChange(run) && isOf(run, this.view));
  }

  /** @param {Run} run */
  mayChange(run) {
    return this.session.admin || run.owner === this.session.user;
  }

  /** @param {string} id */
  find(id) {
    return this.#known.get(id);
  }

  /** @param {string} session @returns {Run[]} Its runs in the order asked. */
  turns(session) {
    return this.list.filter((run) => run.session === session).sort((a, b) => a.started - b.started);
  }

  /** @param {Run} run One that just began, or that was asked for by its id. */
  put(run) {
    this.#known.set(run.id, run);
    this.#fresh.add(run.id);
    this.changed();
    this.#again();
  }

  /** @param {Partial<View>} changes Shows others, and loads the newest of them. */
  async show(changes) {
    this.view = { ...this.view, ...changes };
    this.#begun = this.more = false;
    this.changed();
    await this.refresh();
  }

  /** Loads the newest ones again, and those that run but are not among them. */
  async refresh() {
    const { view } = this;
    const running = this.list.filter(isUnderWay);
    const fresh = (this.#fresh = new Set());
    let pinned = 0;
    await this.#load(listPath(view), (answer) => {
      this.counts = { people: answer.people, programs: answer.programs };
      this.owners = answer.owners;
      if (view !== this.view) return;
      if (!this.#begun) this.#setNext(answer);
      this.#begun = true;
      if (isNarrow(view)) return;
      pinned = answer.pinned;
      this.#forgetDeleted(answer, fresh);
    });
    if (pinned > this.shown.filter((run) => run.pinned && run.id === run.session).length) await this.#load(`${listPath(view)}&pinned=true`, () => {});
    if (!this.#lost) await Promise.all(running.filter((run) => this.#known.get(run.id) === run).map(({ id }) => this.#loadOne(id)));
    this.#again();
  }

  /** Loads the ones before the oldest of the view that was loaded. */
  async loadOlder() {
    const { view } = this;
    await this.#load(`${listPath(view)}&before=${encodeURIComponent(this.#next)}`, (answer) => view === this.view && this.#setNext(answer));
  }

  /** @param {string} session Loads what one conversation has, however old. */
  async loadSession(session) {
    await this.#load(`/runs?limit=${PAGE}&session=${encodeURIComponent(session)}`, () => {});
  }

  /**
   * Changes the conversation of a run. Raises a `Problem` if the server refuses.
   * @param {string} id
   * @param {{title?: string, pinned?: boolean, shared?: boolean}} changes
   */
  async change(id, changes) {
    const { session, title, pinned, shared } = await patch(`/runs/${encodeURIComponent(id)}`, changes);
    this.#changes++;
    for (const run of this.turns(session)) this.#known.set(run.id, { ...run, title, pinned, shared });
    this.changed();
  }

  /** Deletes the conversation of a run on the server. Raises a `Problem` if that refuses. @param {Run} run */
  async remove(run) {
    try {
      await del(`/runs/${encodeURIComponent(run.id)}?remove=conversation`);
    } catch (error) {
      if (!(error instanceof Problem && error.status === 404)) throw error; // gone already
    }
    this.#changes++;
    for (const { id } of this.turns(run.session)) this.#known.delete(id);
    this.changed();
    this.refresh();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** @param {string} path @param {(answer: any) => void} loaded */
  async #load(path, loaded) {
    try {
      const before = this.#look();
      const answer = await this.#get(path);
      this.fault = "";
      for (const run of answer.runs) this.#known.set(run.id, run);
      loaded(answer);
      this.#tell(false);
      if (before !== this.#look()) this.changed();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#tell(error.status === 0);
      const fault = error.status >= 500 ? "Past questions cannot be loaded at the moment." : this.fault;
      if (fault === this.fault) return;
      this.fault = fault;
      this.changed();
    }
  }

  /** Asks again where something was changed here meanwhile. @param {string} path */
  async #get(path) {
    for (;;) {
      const changes = this.#changes;
      const answer = await get(path);
      if (changes === this.#changes) return answer;
    }
  }

  /** @param {string} id Of one that no list brought; what the server no longer has is forgotten. */
  async #loadOne(id) {
    const before = this.#look();
    try {
      const run = await this.#get(`/runs/${encodeURIComponent(id)}`);
      if (this.#known.has(id)) this.#known.set(id, run); // it may have been deleted meanwhile
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === 404) this.#known.delete(id);
    }
    if (before !== this.#look()) this.changed();
  }

  /** What lists show of all that is known, to see whether something changed. */
  #look() {
    const runs = this.list.map(({ id, state, stop_reason, answer, title, pinned, shared }) => [id, state, stop_reason, answer, title, pinned, shared]);
    return JSON.stringify([runs, this.more, this.fault, this.counts, this.owners]);
  }

  /** @param {{more: boolean, next: string}} answer */
  #setNext({ more, next }) {
    this.more = more;
    this.#next = next;
  }

  /** @param {{runs: Run[], next: string}} answer @param {Set<string>} fresh Begun since it was asked for. */
  #forgetDeleted({ runs, next }, fresh) {
    const kept = new Set(runs.map((run) => run.id));
    for (const { id } of this.shown) if (id >= next && !kept.has(id) && !fresh.has(id)) this.#known.delete(id);
  }

  /** @param {boolean} lost */
  #tell(lost) {
    this.#lost = lost;
    this.away(lost);
  }

  #again() {
    clearTimeout(this.#timer);
    if (this.#stopped) return;
    const running = this.list.some(isUnderWay);
    const pause = this.#lost ? WHILE_AWAY : running ? WHILE_RUNNING : OTHERWISE;
    this.#timer = setTimeout(() => (document.hidden ? this.#again() : this.refresh()), pause);
  }
}

/** @param {View} view */
function listPath({ asker, ...narrow }) {
  const query = new URLSearchParams({ limit: String(PAGE), asker });
  for (const [name, value] of Object.entries(narrow)) if (value !== null && value !== "") query.set(name, value);
  if (narrow.owner === "") query.set("owner", "");
  return `/runs?${query}`;
}

/** Whether a view leaves out some runs of those who asked. @param {View} view */
export const isNarrow = (view) => view.text !== "" || view.agent !== "" || view.collection !== "" || view.owner !== null;
