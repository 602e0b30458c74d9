/** The runs that the server keeps, as far as they were loaded; asked for again while one is running. */

import { get, Problem } from "./api.js";

const PAGE = 100;
const WHILE_RUNNING = 2_500;
const WHILE_AWAY = 4_000;
const OTHERWISE = 20_000;

/** @typedef {import("./history.js").Run} Run */

export class PastRuns {
  /** @type {Map<string, Run>} */
  #known = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #reachedEnd = false;
  #stopped = false;
  #lost = false;

  /** True if there are older ones. */
  more = false;
  /** The reason the server cannot list them; empty where it can. */
  fault = "";

  /** @param {{changed: () => void, away: (away: boolean) => void}} calls `away` tells whether the server answers. */
  constructor({ changed, away }) {
    this.changed = changed;
    this.away = away;
    window.addEventListener("vrag:run", () => this.refresh());
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
  }

  get list() {
    return [...this.#known.values()];
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
    this.changed();
    this.#again();
  }

  /** Loads the newest ones again. */
  async refresh() {
    await this.#load(`/runs?limit=${PAGE}`, (more) => { if (!this.#reachedEnd) this.more = more; });
    this.#again();
  }

  /** Loads the ones before the oldest that is known. */
  async loadOlder() {
    const oldest = this.list.reduce((a, b) => (a.started <= b.started ? a : b));
    await this.#load(`/runs?limit=${PAGE}&before=${encodeURIComponent(oldest.id)}`, (more) => {
      this.more = more;
      this.#reachedEnd = !more;
    });
  }

  /** @param {string} session Loads what one conversation has, however old. */
  async loadSession(session) {
    await this.#load(`/runs?limit=${PAGE}&session=${encodeURIComponent(session)}`, () => {});
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** @param {string} path @param {(more: boolean) => void} loaded */
  async #load(path, loaded) {
    try {
      const { runs, more } = await get(path);
      const before = this.more;
      const mended = this.fault !== "";
      this.fault = "";
      const news = runs.some((/** @type {Run} */ run) => differs(this.#known.get(run.id), run));
      for (const run of runs) this.#known.set(run.id, run);
      loaded(more);
      this.#tell(false);
      if (news || mended || before !== this.more) this.changed();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#tell(error.status === 0);
      const fault = error.status >= 500 ? "Past runs cannot be loaded at the moment." : this.fault;
      if (fault === this.fault) return;
      this.fault = fault;
      this.changed();
    }
  }

  /** @param {boolean} lost */
  #tell(lost) {
    this.#lost = lost;
    this.away(lost);
  }

  #again() {
    clearTimeout(this.#timer);
    if (this.#stopped) return;
    const running = this.list.some((run) => run.state === "running");
    const pause = this.#lost ? WHILE_AWAY : running ? WHILE_RUNNING : OTHERWISE;
    this.#timer = setTimeout(() => (document.hidden ? this.#again() : this.refresh()), pause);
  }
}

/** @param {Run | undefined} before @param {Run} now Whether a list shows it otherwise. */
function differs(before, now) {
  return before?.state !== now.state || before.stop_reason !== now.stop_reason || before.answer !== now.answer;
}
