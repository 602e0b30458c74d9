/** A conversation in one scroll: its turns, and the box for the next question below them. */

import { getBlob, post } from "../api.js";
import { request } from "../composer.js";
import { h, icon, replace } from "../dom.js";
import { followUpOptions, selectOptions, storedOptions } from "../run-options.js";
import { attempt } from "../overlays.js";
import { dataUrl } from "../pictures.js";
import { closeViewer, openViewer } from "../viewer-opening.js";
import { hideTip } from "./chips.js";
import { fileUrl } from "./figures.js";
import { Follower } from "./follower.js";
import { NextQuestions } from "./next-questions.js";
import { splitter } from "./splitter.js";
import { Turn } from "./turn.js";

/** @typedef {import("../history.js").Run} Run */
/** @typedef {import("./reducer.js").State} State */
/**
 * @typedef {object} How
 * @property {any} offer What the server offers.
 * @property {import("../composer.js").Composer} box The box for the next question.
 * @property {(run: Run) => boolean} mayChange Whether a run is the reader's: they may stop it, and ask again.
 * @property {(run: Run) => void} asked Called with a run that was begun by a button of the thread.
 */

/** Milliseconds within which Escape is pressed twice to stop a run. */
const TWICE = 1000;
/** Pixels of the end of a turn that may be in sight while the next one is read. */
const SLIVER = 60;
/** Documents of an answer, or collections, about which further questions are suggested. */
const SOURCES = 3;
/** Pixels around the window within which turns are loaded. */
const AHEAD = "800px 0px";

export class Thread {
  /** @type {Map<string, Turn>} */
  #turns = new Map();
  /** @type {Turn | null} The one that the address names. */
  #current = null;
  /** When Escape was pressed last, in milliseconds. */
  #escaped = -TWICE;
  /** How often a question was put into the box. */
  #edits = 0;
  #near;
  #seen;

  /** @param {HTMLElement} root @param {How} how */
  constructor(root, how) {
    this.how = how;
    this.list = h("div", { class: "turns-list" });
    this.latest = h("button", { type: "button", class: "latest", hidden: true }, icon("down"), "Latest");
    this.stopButton = h("button", { type: "button", id: "stop", class: "stop", hidden: true, on: { click: () => this.#stop() } }, icon("stop"), "Stop");
    this.hint = h("p", { class: "escape-hint", role: "status" });
    this.next = new NextQuestions((text) => how.box.fill(text));
    this.scroller = h("div", { class: "thread", tabindex: "-1", role: "region", "aria-label": "Conversation" }, this.list);
    this.foot = h("div", { class: "run-foot" }, h("div", { class: "foot-pills" }, this.latest, this.stopButton, this.hint), how.box.element);
    this.follower = new Follower(this.scroller, this.latest);
    this.element = h("div", { class: "view-run", id: "view" }, this.scroller, this.foot);
    this.scroller.after(splitter(this.element));
    this.#near = new IntersectionObserver((entries) => this.#load(entries), { root: this.scroller, rootMargin: AHEAD });
    this.#seen = new IntersectionObserver((entries) => document.getElementById("toolbar")?.toggleAttribute("data-question-visible", entries[entries.length - 1].isIntersecting), { root: this.scroller });
    this.keys = (/** @type {KeyboardEvent} */ event) => this.#key(event);
    document.addEventListener("keydown", this.keys);
    replace(root, this.element);
  }

  destroy() {
    for (const turn of this.#turns.values()) turn.destroy();
    this.next.close();
    this.#near.disconnect();
    this.#seen.disconnect();
    this.follower.destroy();
    document.removeEventListener("keydown", this.keys);
    document.getElementById("toolbar")?.removeAttribute("data-question-visible");
    hideTip();
    closeViewer();
  }

  /** @param {string} id */
  has(id) {
    return this.#turns.has(id);
  }

  /** Shows the turns of the conversation: adds those that are not there yet, and takes away those that are gone. @param {readonly Run[]} runs In the order asked. */
  update(runs) {
    const gone = [...this.#turns.values()].filter((turn) => !runs.some((run) => run.id === turn.id));
    for (const turn of gone) {
      turn.destroy();
      turn.element.remove();
      this.#turns.delete(turn.id);
    }
    const current = this.#current?.element;
    const top = current?.getBoundingClientRect().top ?? 0;
    runs.forEach((run, index) => {
      if (this.#turns.has(run.id)) return;
      const turn = this.#build(run);
      const next = runs.slice(index + 1).find((one) => this.#turns.has(one.id));
      this.#turns.set(run.id, turn);
      this.list.insertBefore(turn.element, (next && this.#turns.get(next.id)?.element) ?? null);
      if (turn.running) this.follower.follow(turn);
    });
    if (current) this.scroller.scrollTop += current.getBoundingClientRect().top - top; // turns that came above it move nothing
    this.#tellStoppable();
  }

  /**
   * Goes to a turn, and in it to a step or a piece of evidence.
   * @param {string} id @param {number | null} step @param {number | null} cite
   */
  show(id, step, cite) {
    const turn = this.#turns.get(id);
    if (!turn) return;
    const came = this.#current !== turn;
    if (came) {
      if (this.#current) this.#current.current = false;
      this.#current = turn;
      turn.current = true;
      this.#seen.disconnect();
      this.#seen.observe(turn.head.question);
      this.scroller.scrollTop += turn.element.getBoundingClientRect().top + turn.element.clientTop - this.scroller.getBoundingClientRect().top;
      if (turn.running) this.follower.follow(turn);
    }
    if (document.activeElement === document.body || document.activeElement?.id === "main") this.scroller.focus({ preventScroll: true }); // so that keys scroll it
    turn.load();
    turn.show(step, cite);
  }

  /** Loads what print shows, and prints. */
  async print() {
    const lists = [...this.#turns.values()].map((turn) => turn.loadForPrint());
    await Promise.all(lists);
    const images = [...this.list.querySelectorAll("img")];
    for (const image of images) image.setAttribute("loading", "eager");
    await Promise.all(images.map((image) => image.decode().catch(() => {}))); // one that is absent is told as such
    window.print();
  }

  /** @param {Run} run */
  #build(run) {
    const turn = new Turn(run, {
      look: openViewer,
      closeViewer,
      remedies: this.how.mayChange(run) ? this.#remedies(run) : null,
      around: (one, change) => this.#change(one, change),
      following: () => this.follower.following,
      moved: (hash) => run.id === this.#current?.id && history.replaceState(null, "", hash),
    });
    this.#near.observe(turn.element);
    return turn;
  }

  /** @param {Run} run @returns {import("./answer.js").Remedies} */
  #remedies(run) {
    return {
      steps: this.how.offer.limits.steps,
      edit: (question, attached) => this.#edit(run, question, attached),
      choose: async (question, attached) => { if (await this.#edit(run, question, attached)) this.how.box.choose(); },
      more: (state, steps) => this.#askAgain(run, state, { max_steps: steps }),
      only: (state, document) => this.#askAgain(run, state, { documents: [document] }),
    };
  }

  /** Changes a turn. What is read stays where it is when the turn stands above it. @param {Turn} turn @param {() => void} change */
  #change(turn, change) {
    const isAbove = turn.element.getBoundingClientRect().bottom < this.scroller.getBoundingClientRect().top + SLIVER;
    const next = isAbove ? turn.element.nextElementSibling : null;
    const before = next?.getBoundingClientRect().top ?? 0;
    this.follower.around(turn, change);
    if (next) this.scroller.scrollTop += next.getBoundingClientRect().top - before;
    this.#tellStoppable();
  }

  /** @param {IntersectionObserverEntry[]} entries */
  #load(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.#near.unobserve(target);
      this.#turns.get(/** @type {HTMLElement} */ (target).dataset.run ?? "")?.load();
    }
  }

  /**
   * Puts a question with its pictures into the box, in the place of what is there, to be changed and asked again.
   * @param {Run} run @param {string} question @param {readonly string[]} attached
   * @returns {Promise<boolean>} False if a picture did not come, or another question was put there meanwhile.
   */
  async #edit(run, question, attached) {
    const number = ++this.#edits;
    /** @type {readonly string[]} */
    let urls = [];
    const came = await attempt(async () => { urls = await picturesOf(run, attached); });
    if (!came || number !== this.#edits) return false;
    this.how.box.refill(question, urls);
    return true;
  }

  /** Asks a question again as it was asked, but for some changes. @param {Run} run @param {State} state @param {{max_steps?: number, documents?: string[]}} changes */
  async #askAgain(run, state, changes) {
    const { offer, asked } = this.how;
    const choices = selectOptions(offer, followUpOptions(offer, run, storedOptions()));
    const { environment } = state.started.settings;
    await attempt(async () => {
      const images = await picturesOf(run, state.started.attached ?? []);
      const body = request(run.question, choices, { session: run.session, images });
      asked(await post("/runs", { ...body, ...(environment?.documents && { documents: environment.documents }), ...changes }));
    });
  }

  /** The turn that goes on, if the reader may stop it. @returns {Turn | undefined} */
  get #stoppable() {
    return [...this.#turns.values()].findLast((turn) => turn.stoppable);
  }

  /** Questions to go on with, below the last turn once it has its answer. */
  #suggest() {
    const turns = [...this.list.children].map((element) => this.#turns.get(/** @type {HTMLElement} */ (element).dataset.run ?? ""));
    const last = turns.at(-1);
    const documents = last?.citedDocuments ?? [];
    const names = this.how.offer.collections.filter((/** @type {any} */ one) => one.documents > 0).map((/** @type {any} */ one) => one.name);
    if (last && !last.steps.element.contains(this.next.element)) last.steps.element.append(this.next.element);
    const asked = turns.map((turn) => turn?.head.asked ?? "");
    const collections = last?.collection ? [last.collection] : names.slice(0, SOURCES);
    this.next.show(last && documents.length > 0 ? { run: last.id, documents: documents.slice(0, SOURCES), asked } : null, collections);
  }

  #tellStoppable() {
    this.#suggest();
    const stoppable = this.#stoppable;
    if (this.stopButton.hidden === !stoppable) return;
    this.stopButton.hidden = !stoppable;
    this.stopButton.toggleAttribute("disabled", false);
    replace(this.stopButton, icon("stop"), "Stop");
    this.#tellHint("");
  }

  async #stop() {
    const stoppable = this.#stoppable;
    if (!stoppable || this.stopButton.hasAttribute("disabled")) return;
    this.stopButton.toggleAttribute("disabled", true);
    replace(this.stopButton, icon("stop"), "Stopping");
    if (await stoppable.stop()) return;
    this.stopButton.toggleAttribute("disabled", false);
    replace(this.stopButton, icon("stop"), "Stop");
  }

  /** Escape closes what is open; pressed twice it stops the run. Ctrl+P prints all of the conversation. @param {KeyboardEvent} event */
  #key(event) {
    if (event.key.toLowerCase() === "p" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && !event.defaultPrevented) {
      event.preventDefault();
      this.print();
      return;
    }
    if (event.key !== "Escape" || event.defaultPrevented) return;
    if (hideTip()) return;
    if (/** @type {Element} */ (event.target).closest("input, textarea, select, dialog, details[open], [popover]")) return;
    if (document.querySelector("dialog[open], .viewer:not([hidden])")) return;
    const turns = [...this.#turns.values()];
    if ((this.#current && this.#current.escape()) || turns.some((turn) => turn.escape()) || !this.#stoppable) return;
    const twice = event.timeStamp - this.#escaped < TWICE;
    this.#escaped = event.timeStamp;
    if (twice) this.#stop();
    else this.#tellHint("Press Esc again to stop.");
  }

  /** @param {string} text */
  #tellHint(text) {
    clearTimeout(this.hinted);
    this.hint.textContent = text;
    if (text) this.hinted = setTimeout(() => this.#tellHint(""), TWICE);
  }
}

/** The pictures of a question as data URLs. @param {Run} run @param {readonly string[]} attached */
const picturesOf = (run, attached) => Promise.all(attached.map((sha256) => getBlob(fileUrl(run.id, sha256)).then(dataUrl)));
