/**
 * A turn of a conversation: the question, its answer first, the evidence, and the steps in a line that folds out.
 *
 * A run that goes on is followed by its events. Of one that has ended the answer and the evidence are asked for, as soon as it
 * comes near the window; its events only when its steps are folded out, or when there is no answer to show.
 */

import { del, follow, get, Problem } from "../api.js";
import { announce, h, toast } from "../dom.js";
import { ordinal } from "../format.js";
import { isUnderWay } from "../history.js";
import { rewriteForPage } from "../messages.js";
import { runHash } from "../router.js";
import { AnswerView, endingOf, isWithoutModel, openCitation } from "./answer.js";
import { checkedText, cited } from "./citations.js";
import { EvidencePanel } from "./evidence-panel.js";
import { Head } from "./head.js";
import { plainText } from "./prose.js";
import { endedState, RunState } from "./run-state.js";
import { Steps } from "./steps.js";
import { PLACES } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("../history.js").Run} Run */
/**
 * @typedef {object} Surroundings
 * @property {(place: any) => void} look Opens the viewer.
 * @property {() => void} closeViewer
 * @property {import("./answer.js").Remedies | null} remedies None in another user's conversation, which can only be read.
 * @property {(turn: Turn, change: () => void) => void} around Changes a turn without moving what is read.
 * @property {() => boolean} following Whether the reader is at the end of what comes.
 * @property {(hash: string) => void} moved The address of the turn has changed.
 */

/** Parts that have an id in the turn that the address names. @type {Record<string, string>} */
const IDS = {
  question: ".question", answer: ".answer", "answer-text": ".answer-text", "run-side": ".run-side", "evidence-panel": ".evidence-panel", status: ".status", meter: ".meter", lost: ".lost",
  replay: ".replay", export: ".menu", player: ".player", "tab-graph": ".tab-graph", "tab-steps": ".tab-steps", "fold-steps": ".fold-steps", "run-graph": ".run-graph", graph: ".graph", "run-steps": ".run-steps", "node-panel": ".node-panel",
};

export class Turn {
  #runState = new RunState();
  /** @type {State | null} What is known of a run that has ended without its events. */
  #ended = null;
  /** @type {Map<number, any>} Drawings of the graph, by the event that they belong to. */
  #drawings = new Map();
  /** @type {any} The drawing that came last, whose event comes next. */
  #coming = null;
  /** @type {{close: () => void} | null} */
  #stream = null;
  #frame = 0;
  #live = false;
  /** True if all events have come. */
  #over = false;
  #gone = false;
  #asked = false;
  /** @type {Promise<void> | null} */
  #loading = null;
  /** @type {(() => void)[]} What waits for all events. */
  #waiting = [];
  /** @type {{id: string, state: string} & Partial<Run>} */
  #run;

  /** @param {Run} run @param {Surroundings} around */
  constructor(run, around) {
    this.#run = run;
    this.id = run.id;
    this.around = around;
    /** @type {import("./entries.js").RunContext} */
    this.context = { run: run.id, look: around.look, node: (id) => this.#openNode(id), point: (number) => this.#point(number) };
    this.head = new Head(run.id, run.question, around.remedies?.edit ?? null);
    this.answer = new AnswerView(this.context, around.remedies);
    this.evidence = new EvidencePanel(this.context);
    this.steps = new Steps(this.context, { unfolded: () => this.#follow(), replay: () => this.#toggleReplay(), position: (at) => this.#moved(at), endReplay: () => this.endReplay() });
    this.side = h("aside", { class: "run-side", "aria-label": "Evidence" }, this.evidence.element);
    this.element = h("article", { class: "run", dataset: { run: run.id, state: "waiting" } }, this.head.element, this.answer.element, this.side, this.steps.element);
    this.#begin();
  }

  /** True if it goes on. */
  get running() {
    return this.#live && !this.#over;
  }

  /** True if it goes on, and the reader may stop it. */
  get stoppable() {
    return this.running && this.around.remedies !== null;
  }

  /** True once the answer is written, or stands. */
  get answering() {
    const { draft, answer, failure } = this.#runState.last;
    return (draft ?? answer ?? failure) !== null;
  }

  /** Ids of the documents that the answer cites, once it stands, for whoever may go on asking. @returns {string[]} */
  get citedDocuments() {
    const state = this.#shown;
    if (this.running || this.around.remedies === null || !state.answer?.text) return [];
    return [...new Set(cited(state).main.map(({ evidence }) => evidence.document_id))];
  }

  /** The collection that was asked; null for all. @returns {string | null} */
  get collection() {
    return this.#run.collection ?? null;
  }

  /** What grows: the answer, or the steps before there is one. */
  get edge() {
    return this.answering ? this.answer.element : this.steps.element;
  }

  /** The parts of the turn that the address names have ids. @param {boolean} current */
  set current(current) {
    for (const [id, selector] of Object.entries(IDS)) {
      const part = this.element.querySelector(selector);
      if (current) part?.setAttribute("id", id);
      else part?.removeAttribute("id");
    }
    if (current) this.element.setAttribute("aria-current", "true");
    else this.element.removeAttribute("aria-current");
  }

  destroy() {
    this.#gone = true;
    this.#stream?.close();
    cancelAnimationFrame(this.#frame);
    this.steps.destroy();
  }

  /**
   * Goes to a step, or to the place of a piece of evidence; without both, a replay ends.
   * @param {number | null} step
   * @param {number | null} cite
   */
  async show(step, cite) {
    if (step !== null) this.#whenOver(() => this.steps.player.open(this.#runState.moments, step));
    else if (this.steps.player.active) this.endReplay();
    if (cite === null) return;
    await this.load();
    if (!this.#gone && !this.running) openCitation(this.context, this.#shown, cite);
  }

  /** Loads the answer and its evidence. @returns {Promise<void>} */
  load() {
    this.#loading ??= this.#load();
    return this.#loading;
  }

  /** Loads all that print shows: also the steps, where they are folded out. */
  async loadForPrint() {
    await this.load();
    if (!this.steps.open || this.running) return;
    await new Promise((done) => this.#whenOver(() => done(null)));
    this.steps.openAll();
  }

  /** Closes what is open. @returns {boolean} Whether something was. */
  escape() {
    if (this.steps.closeNode()) return true;
    if (!this.steps.player.active) return false;
    this.endReplay();
    return true;
  }

  /** Asks the server to end the run; what it had seen stays. @returns {Promise<boolean>} Whether it was asked. */
  async stop() {
    try {
      await del(`/runs/${encodeURIComponent(this.id)}`);
      return true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      toast("The run could not be stopped.", { kind: "danger", hint: error.detail });
      return false;
    }
  }

  endReplay() {
    this.steps.player.close();
    this.around.moved(runHash(this.id));
    this.#draw();
    this.steps.settle();
  }

  #begin() {
    const { state, answer, stop_reason: reason } = this.#run;
    if (isUnderWay(this.#run)) {
      this.#live = true;
      this.#notify("running");
      this.steps.open = true;
    } else if (state === "interrupted" || (answer === null && reason !== "abstained")) this.#follow();
    if (!this.#live) this.#ended = endedState(this.#run);
    this.#draw();
  }

  async #load() {
    if (this.#live || this.#run.state !== "finished") return;
    try {
      const run = await get(`/runs/${encodeURIComponent(this.id)}`);
      if (this.#gone) return;
      this.#run = run;
      this.#ended = endedState(run);
      this.#draw();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.#loading = null; // another time
      if (error.status !== 401) this.steps.lose(error.detail);
    }
  }

  /** Asks for the events, once. */
  #follow() {
    if (this.#asked) return;
    this.#asked = true;
    this.#stream = follow(this.id, {
      event: (event) => this.#take(event),
      drawing: (drawing) => (this.#coming = drawing),
      queued: ({ position }) => this.#wait(`Waiting: ${ordinal(position)} in the queue`),
      end: ({ state }) => this.#end(state),
      found: () => this.steps.lose(""),
      lost: (problem) => this.#lost(problem),
    });
  }

  /** @param {() => void} then */
  #whenOver(then) {
    if (this.#over) return then();
    this.#waiting.push(then);
    this.#follow();
  }

  /** @param {string} text The position in the queue. */
  #wait(text) {
    this.steps.lose("");
    this.#runState.wait(text);
    announce(text);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** @param {any} event */
  #take(event) {
    this.steps.lose("");
    const before = this.#runState.last;
    if (!this.#runState.add(event)) return;
    if (event.type === "graph_changed") this.#drawings.set(event.seq, this.#coming);
    if (!this.#live) return; // drawn when all have come
    say(before, this.#runState.last);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** @param {string} state */
  #end(state) {
    this.#run = { ...this.#run, state };
    this.#over = true;
    this.steps.lose("");
    if (this.#live) this.#notify(state);
    cancelAnimationFrame(this.#frame);
    this.#draw();
    if (!this.#live) this.steps.settle();
    for (const then of this.#waiting.splice(0)) then();
  }

  /** @param {Problem} [problem] */
  #lost(problem) {
    if (!problem && !this.steps.lost.hidden) return;
    this.steps.lose(problem ? `${problem.detail} ${problem.hint}` : "The connection was lost. Trying again …");
    if (!problem) announce("The connection was lost. Trying again.");
  }

  /** True if the events are there, as far as the run has come. */
  get #known() {
    return this.#live || this.#over;
  }

  /** The state that is shown: the last one, that of the step in a replay, or what is known without events. @returns {State} */
  get #shown() {
    const { last, moments } = this.#runState;
    const { player } = this.steps;
    if (player.active) {
      const moment = moments[player.position - 1];
      return player.position >= moments.length ? last : this.#runState.at(moment ? moment.seq : (moments[0]?.first ?? 1) - 1);
    }
    const answered = this.#ended !== null && checkedText(this.#ended) !== "";
    return this.#live || (this.#over && !answered) ? last : (this.#ended ?? last);
  }

  #draw() {
    this.#frame = 0;
    if (this.#gone) return;
    this.around.around(this, () => this.#update());
  }

  #update() {
    const replaying = this.steps.player.active;
    const { running } = this;
    const state = this.#shown;
    const steps = this.#known && !replaying ? this.#runState.last : state;
    const over = !running && !replaying;
    this.element.dataset.state = running ? "running" : replaying ? "replay" : "ended";
    this.element.dataset.ending = over && endingOf(state) === PLACES ? "places" : "";
    this.element.dataset.agent = state.started?.settings.agent ?? "";
    this.head.update(state.started ?? { ts: this.#run.started, settings: { agent: this.#run.agent, policy: this.#run.model, environment: { collection: this.#run.collection, documents: this.#run.documents ?? null } } });
    this.#fold();
    this.answer.update(state, this.#run.state === "interrupted" && over);
    this.evidence.update(state, over);
    this.side.hidden = this.evidence.element.hidden;
    this.steps.update(steps, this.#drawings.get(steps.graphSeq) ?? null, { running, replaying, over, known: this.#known });
  }

  /** The steps fold when the answer comes, unless somebody reads them; they fold out again when it is discarded. */
  #fold() {
    if (!this.#live) return;
    if (!this.answering) this.steps.suggest(true);
    else if (this.around.following()) this.steps.suggest(false);
  }

  /** @param {number | null} number */
  #point(number) {
    this.answer.point(number);
    this.evidence.point(number);
  }

  /** @param {string} id */
  #openNode(id) {
    this.around.closeViewer();
    this.steps.open = true;
    if (this.#live) this.steps.openNode(id, this.#runState.last);
    else this.#whenOver(() => this.steps.openNode(id, this.steps.player.active ? this.#shown : this.#runState.last));
  }

  #toggleReplay() {
    if (this.steps.player.active) return this.endReplay();
    this.steps.open = true;
    this.#whenOver(() => {
      this.steps.player.open(this.#runState.moments, 0);
      this.steps.player.toggle();
    });
  }

  /** @param {number} position The player went somewhere. */
  #moved(position) {
    this.around.moved(`${runHash(this.id)}?step=${position}`);
    this.#draw();
    this.steps.focusStep(position);
  }

  /** @param {string} state */
  #notify(state) {
    window.dispatchEvent(new CustomEvent("vrag:run", { detail: { id: this.id, state } }));
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
  const text = state.answer?.text;
  return text ? `${name}: ${isWithoutModel(state) ? text : plainText(text)}` : `${name}. ${state.failure ? rewriteForPage(state.failure.message) : said}`;
}
