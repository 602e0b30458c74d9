/** The parts of a run's view and their places: question, run bar, graph, steps and answer; beside them what it looks at. */

import { h, icon } from "../dom.js";
import { AnswerView } from "./answer.js";
import { GraphView } from "./graph.js";
import { NodePanel } from "./node.js";
import { Player } from "./player.js";
import { RunBar } from "./run-bar.js";
import { EvidencePanel } from "./evidence-panel.js";
import { splitter } from "./splitter.js";
import { Timeline } from "./timeline.js";
import { count } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {{context: import("./entries.js").RunContext, followUp: ((question: string) => void) | null, footer: HTMLElement | null, replay: () => void, position: (at: number) => void, endReplay: () => void}} Made */

/** Steps of a stored run from which they are folded up as a whole. */
const MANY = 12;

export class Layout {
  #head;
  #narrow = window.matchMedia("(max-width: 999px)");
  /** Where there is no room beside the run, its evidence follows the answer. */
  #place = () => {
    const under = this.#narrow.matches && !this.answer.element.hidden;
    if (under) this.answer.element.after(this.side);
    else if (this.side.parentElement !== this.element) this.element.append(this.side);
  };

  /** @param {Made} made */
  constructor({ context, followUp, footer, replay, position, endReplay }) {
    this.bar = new RunBar(context.run, replay);
    this.player = new Player(context.run, position, endReplay);
    this.graph = new GraphView(context);
    this.timeline = new Timeline(context);
    this.answer = new AnswerView(context, followUp);
    this.evidence = new EvidencePanel(context);
    this.node = new NodePanel(context, () => this.closeNode(), (step) => this.#goTo(step));
    this.head = h("header", { class: "run-head" });
    this.tabs = h("div", { class: "run-tabs", role: "tablist", "aria-label": "How the run is shown", hidden: true }, this.#tab("graph", "Graph", "graph"), this.#tab("steps", "Steps", "menu"));
    this.now = h("p", { class: "graph-now", dir: "auto", hidden: true });
    this.graphPart = h("section", { class: "run-graph", id: "run-graph", hidden: true, "aria-label": "Memory graph" }, this.graph.element, this.now);
    this.count = h("span", { class: "faint" });
    this.fold = h("button", { type: "button", class: "quiet", id: "fold-steps", on: { click: () => this.#foldAll() } });
    this.title = h("header", { class: "steps-head" }, h("h2", "Steps ", this.count), this.fold);
    this.stepsPart = h("section", { class: "run-steps", id: "run-steps", "aria-label": "Steps" }, this.title, this.timeline.element);
    this.latest = h("button", { type: "button", class: "latest", hidden: true }, icon("down"), "Latest");
    this.body = h("div", { class: "run-body" }, this.head, h("div", { class: "run-top" }, this.bar.element, this.player.element), this.tabs, this.graphPart, this.stepsPart, this.answer.element);
    this.main = h("div", { class: "run-main" }, this.body, h("div", { class: "run-foot" }, this.latest, footer));
    this.side = h("aside", { class: "run-side", id: "run-side", "aria-label": "What the run looks at" }, this.evidence.element);
    this.element = h("div", { class: "run", dataset: { state: "waiting" } }, this.main, splitter(this.side), this.side);
    this.shown = "steps";
    this.#head = new IntersectionObserver(([entry]) => document.getElementById("toolbar")?.toggleAttribute("data-question-visible", entry.isIntersecting));
    this.#head.observe(this.head);
    this.#narrow.addEventListener("change", this.#place);
  }

  destroy() {
    this.#head.disconnect();
    document.getElementById("toolbar")?.removeAttribute("data-question-visible");
    this.#narrow.removeEventListener("change", this.#place);
    this.player.close();
    this.bar.destroy();
    this.graph.destroy();
  }

  /**
   * @param {State} state
   * @param {any} drawing
   * @param {{running: boolean, replaying: boolean, over: boolean, cutOff: boolean}} how
   */
  update(state, drawing, how) {
    const first = this.element.dataset.agent === undefined && state.started !== null;
    if (first) this.#begin(state.started.settings.agent);
    this.element.dataset.state = how.running ? "running" : how.replaying ? "replay" : "ended";
    this.bar.update(state, how);
    this.timeline.update(state, how.running);
    this.drawn = { drawing, state, over: how.over };
    this.#drawGraph();
    this.#tellNow(state, how.running);
    this.answer.update(state, how.cutOff);
    this.#place();
    this.evidence.update(state, how.over);
    this.node.update(state);
    this.title.hidden = state.steps.length === 0 || (this.element.dataset.agent === "vimrag" && how.running);
    this.count.textContent = state.steps.length ? String(state.steps.length) : "";
    this.#tellFold();
  }

  /**
   * Shows a run that has ended: the answer first, its steps in a line each.
   * @param {State} state
   */
  settle(state) {
    this.tabs.before(this.answer.element);
    this.#place();
    this.timeline.unfold(() => false);
    this.timeline.element.hidden = state.steps.length > MANY && this.element.dataset.agent !== "vimrag";
    this.#tellFold();
    this.main.scrollTop = 0;
    if (this.element.parentElement) this.element.parentElement.scrollTop = 0;
  }

  /** Opens the step of a replay and closes the others. @param {number} position */
  focusStep(position) {
    this.body.append(this.answer.element);
    this.#place();
    this.timeline.element.hidden = false;
    this.timeline.unfold((number) => number === position);
    this.#tellFold();
    if (this.shown === "steps") this.timeline.stepElement(position)?.scrollIntoView({ block: "nearest" });
  }

  /** @param {string} id @param {State} state */
  openNode(id, state) {
    const beside = getComputedStyle(this.side).position === "relative";
    if (beside) this.side.prepend(this.node.element);
    else if (this.shown === "graph") this.graphPart.after(this.node.element);
    else this.side.prepend(this.node.element);
    this.side.scrollTop = 0;
    this.node.open(id, state);
    this.graph.choose(id);
    if (!beside) this.node.element.scrollIntoView({ block: "nearest" });
  }

  /** @returns {boolean} Whether one was open. */
  closeNode() {
    const { id } = this.node;
    if (id === "") return false;
    this.node.close();
    this.graph.choose("");
    if (this.shown === "graph") this.graph.focus(id);
    return true;
  }

  /** @param {string} agent */
  #begin(agent) {
    this.element.dataset.agent = agent;
    this.tabs.hidden = agent !== "vimrag";
    if (agent === "vimrag") this.#show("graph");
  }

  /** @param {string} name @param {string} label @param {string} sign */
  #tab(name, label, sign) {
    return h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `run-${name}`, "aria-selected": name === "steps", tabindex: name === "steps" ? "0" : "-1", on: { click: () => this.#show(name), keydown: (/** @type {KeyboardEvent} */ event) => this.#tabKey(event, name) } }, icon(sign), label);
  }

  /** @param {KeyboardEvent} event @param {string} name */
  #tabKey(event, name) {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.stopPropagation();
    event.preventDefault();
    const other = name === "graph" ? "steps" : "graph";
    this.#show(other);
    /** @type {HTMLElement | null} */ (this.tabs.querySelector(`#tab-${other}`))?.focus();
  }

  /** @param {string} name */
  #show(name) {
    this.shown = name;
    for (const tab of this.tabs.children) {
      const chosen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.setAttribute("tabindex", chosen ? "0" : "-1");
    }
    this.graphPart.hidden = name !== "graph";
    this.stepsPart.hidden = name !== "steps";
    this.#drawGraph();
  }

  #drawGraph() {
    if (this.drawn && !this.graphPart.hidden) this.graph.update(this.drawn.drawing, this.drawn.state, this.drawn.over);
  }

  /** Below the graph: what is thought at the moment. @param {State} state @param {boolean} running */
  #tellNow(state, running) {
    const step = state.steps.at(-1);
    const thought = running ? (step?.thought.trim() ?? "") : "";
    this.now.hidden = thought === "";
    if (this.now.textContent !== thought) this.now.textContent = thought;
    this.now.scrollTop = this.now.scrollHeight;
  }

  /** @param {number} step */
  #goTo(step) {
    if (!this.tabs.hidden) this.#show("steps");
    this.timeline.element.hidden = false;
    const element = this.timeline.stepElement(step);
    element?.scrollIntoView({ block: "start" });
    if (element?.classList.contains("closed")) element.querySelector("button")?.click();
    element?.querySelector("button")?.focus({ preventScroll: true });
  }

  #foldAll() {
    const open = !this.timeline.unfolded;
    if (this.timeline.element.hidden) this.timeline.element.hidden = false;
    else this.timeline.unfold(() => open);
    this.#tellFold();
  }

  #tellFold() {
    const label = this.timeline.element.hidden ? `Show ${count(this.timeline.element.childElementCount, "step")}` : this.timeline.unfolded ? "Close all" : "Open all";
    if (this.fold.textContent !== label) this.fold.textContent = label;
  }
}
