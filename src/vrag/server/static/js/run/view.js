/** A run in the main area: it is followed while it goes on, and can be gone through when it has ended. */

import { follow, get, Problem } from "../api.js";
import { announce, h } from "../dom.js";
import { showNotice } from "../overlays.js";
import { runHash } from "../router.js";
import { close as closeViewer, open as openViewer } from "../viewer/viewer.js";
import { endingOf, openCitation } from "./answer.js";
import { Follower } from "./follower.js";
import { showHead } from "./head.js";
import { Layout } from "./page-layout.js";
import { RunState } from "./run-state.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {{id: string, step?: number | null, cite?: number | null, options?: any, onFollowUp?: (session: string, question: string) => void, footer?: HTMLElement}} How */

/**
 * Shows a run, under way or stored.
 * @param {HTMLElement} root
 * @param {How} how `footer` stands below the run: the box for a follow-up.
 * @returns {{element: HTMLElement, destroy: () => void, show: (step: number | null, cite: number | null) => void}}
 */
export function mount(root, how) {
  const view = new RunView(root, how);
  view.begin();
  return { element: view.layout.element, destroy: () => view.destroy(), show: (step, cite) => view.show(step, cite) };
}

class RunView {
  #runState = new RunState();
  /** @type {Map<number, any>} Drawings of the graph, by the event that they belong to. */
  #drawings = new Map();
  /** @type {any} The drawing that came last, whose event comes next. */
  #coming = null;
  /** @type {{close: () => void} | null} */
  #stream = null;
  #frame = 0;
  /** "running", "finished" or "interrupted"; empty until the server has said. */
  #state = "";
  /** True if it was under way when it was opened. */
  #live = false;
  #over = false;
  #gone = false;

  /** @param {HTMLElement} root @param {How} how */
  constructor(root, how) {
    this.root = root;
    this.how = how;
    this.position = how.step ?? null;
    this.cite = how.cite ?? null;
    const context = { run: how.id, look: (/** @type {any} */ place) => openViewer(place), node: (/** @type {string} */ id) => this.#openNode(id), point: (/** @type {number | null} */ number) => this.layout.evidence.point(number) };
    this.context = context;
    const followUp = how.onFollowUp ? (/** @type {string} */ question) => how.onFollowUp?.(this.#runState.last.started?.session || how.id, question) : null;
    this.layout = new Layout({ context, followUp, footer: how.footer ?? null, replay: () => this.#toggleReplay(), position: (at) => this.#moved(at), endReplay: () => this.#endReplay() });
    this.follower = new Follower(root, this.layout);
    this.keys = (/** @type {KeyboardEvent} */ event) => this.#key(event);
  }

  async begin() {
    this.root.classList.add("run-root");
    this.root.replaceChildren(this.layout.element);
    document.addEventListener("keydown", this.keys);
    try {
      const summary = await get(`/runs/${encodeURIComponent(this.how.id)}`);
      if (this.#gone) return;
      this.#state = summary.state;
      this.#live = summary.state === "running";
      if (this.#live) this.#notifyShell();
      if (this.#live) this.#greet(summary);
      this.#follow();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (!this.#gone && error.status !== 401) this.#fail(error);
    }
  }

  /** Shows the known facts of a run before its first event: it can be read, and stopped. @param {any} summary */
  #greet({ question, agent, model, collection, started }) {
    showHead(this.layout.head, { question, ts: started, settings: { agent, policy: model, environment: { collection } } }, this.how.id);
    this.#draw();
  }

  destroy() {
    this.#gone = true;
    this.#stream?.close();
    cancelAnimationFrame(this.#frame);
    document.removeEventListener("keydown", this.keys);
    closeViewer();
    this.follower.destroy();
    this.layout.destroy();
    this.root.classList.remove("run-root");
  }

  /**
   * Goes to a step of a run that has ended, or to the place of a piece of evidence; without both, a replay ends.
   * @param {number | null} step
   * @param {number | null} cite
   */
  show(step, cite) {
    this.position = step;
    this.cite = cite;
    if (!this.#over) return;
    if (cite !== null) openCitation(this.context, this.#runState.last, cite);
    else if (step === null) this.#endReplay();
    else this.layout.player.open(this.#runState.moments, step);
  }

  #follow() {
    this.#stream = follow(this.how.id, {
      event: (event) => this.#take(event),
      drawing: (drawing) => (this.#coming = drawing),
      end: ({ state }) => this.#end(state),
      found: () => this.layout.bar.lose(""),
      lost: (problem) => this.#lost(problem),
    });
  }

  /** @param {any} event */
  #take(event) {
    this.layout.bar.lose("");
    const before = this.#runState.last;
    if (!this.#runState.add(event)) return;
    if (event.type === "graph_changed") this.#drawings.set(event.seq, this.#coming);
    if (event.type === "run_started") showHead(this.layout.head, event, this.how.id);
    if (this.#live) say(before, this.#runState.last);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** @param {string} state */
  #end(state) {
    this.#state = state;
    this.#over = true;
    this.layout.bar.lose("");
    this.#notifyShell(); // also of one that was over when the page came to it: the shell may have it as running
    cancelAnimationFrame(this.#frame);
    this.#draw();
    if (!this.#live || this.follower.following) this.layout.settle(this.#runState.last); // else somebody reads where it would move
    if (this.position !== null) this.layout.player.open(this.#runState.moments, this.position);
    else if (this.cite !== null) openCitation(this.context, this.#runState.last, this.cite);
  }

  /** @param {Problem} [problem] */
  #lost(problem) {
    if (problem) return this.#fail(problem);
    if (!this.layout.bar.lost.hidden) return;
    this.layout.bar.lose("The connection was lost. Trying again …");
    announce("The connection was lost. Trying again.");
  }

  /** @param {Problem} problem */
  #fail(problem) {
    const missing = problem.status === 404;
    showNotice(this.root, {
      id: "run-problem",
      title: missing ? "Run not found" : problem.detail,
      hint: missing ? "The run may have been deleted, or the link belongs to another server." : problem.hint,
      actions: [h("a", { href: "#/", class: "button primary", text: "Ask a question" })],
    });
  }

  /** The state that is shown: the last one, or that of the step in a replay. @returns {State} */
  get #shown() {
    const player = this.layout.player;
    if (!player.active) return this.#runState.last;
    const { last, moments } = this.#runState;
    if (player.position >= moments.length) return last;
    const moment = moments[player.position - 1];
    return this.#runState.at(moment ? moment.seq : (moments[0]?.first ?? 1) - 1);
  }

  #draw() {
    this.#frame = 0;
    if (this.#gone) return;
    const state = this.#shown;
    const replaying = this.layout.player.active;
    const running = this.#live && !this.#over;
    const how = { running, replaying, over: this.#over && !replaying, cutOff: this.#state === "interrupted" && this.#over && !replaying };
    this.follower.around(running, () => this.layout.update(state, this.#drawings.get(state.graphSeq) ?? null, how));
  }

  /** @param {string} id */
  #openNode(id) {
    closeViewer(); // it stands where the node is told of
    this.layout.openNode(id, this.#shown);
  }

  #toggleReplay() {
    if (this.layout.player.active) return this.#endReplay();
    this.layout.player.open(this.#runState.moments, 0);
    this.layout.player.toggle();
  }

  #endReplay() {
    this.layout.player.close();
    this.position = null;
    history.replaceState(null, "", runHash(this.how.id));
    this.#draw();
    this.layout.settle(this.#runState.last);
  }

  /** @param {number} position The player went somewhere. */
  #moved(position) {
    this.position = position;
    history.replaceState(null, "", `${runHash(this.how.id)}?step=${position}`);
    this.#draw();
    this.layout.focusStep(position);
  }

  #notifyShell() {
    window.dispatchEvent(new CustomEvent("vrag:run", { detail: { id: this.how.id, state: this.#state } }));
  }

  /** Escape closes what is open, or stops the run. @param {KeyboardEvent} event */
  #key(event) {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (/** @type {Element} */ (event.target).closest("input, textarea, select, dialog, details[open], [popover]")) return;
    if (document.querySelector("dialog[open], .viewer:not([hidden])")) return;
    if (this.layout.closeNode()) return;
    if (this.layout.player.active) this.#endReplay();
    else if (this.#live && !this.#over) this.layout.bar.stop();
  }
}

/**
 * Tells screen readers what a run does and how it ends, never every word.
 * @param {State} before
 * @param {State} state
 */
function say(before, state) {
  if (before.now === state.now) return;
  const { kind, text, what } = state.now;
  if (kind === "ended") return announce(endText(state));
  if (kind === "thinking" || (kind === before.now.kind && before.steps.at(-1)?.number === state.steps.at(-1)?.number)) return;
  announce(`${text} ${what}`.trim());
}

/** @param {State} state */
function endText(state) {
  const { name, said } = endingOf(state);
  return state.answer?.text ? `${name}: ${state.answer.text}` : `${name}. ${state.failure?.message ?? said}`;
}
