/**
 * The steps of a turn in one line that folds out: what goes on or how many there were, and what they cost; within, the graph,
 * the steps, their replay and export.
 */

import { h, icon, replace } from "../dom.js";
import { count } from "../format.js";
import { linkMenu } from "../menu.js";
import { endingOf } from "./answer.js";
import { Meter } from "./cost.js";
import { GraphView } from "./graph.js";
import { NodePanel } from "./node.js";
import { Player } from "./player.js";
import { Timeline } from "./timeline.js";

/** @typedef {import("./reducer.js").State} State */
/**
 * @typedef {object} Calls
 * @property {() => void} unfolded Called before the steps are shown, to load them.
 * @property {() => void} replay
 * @property {(at: number) => void} position The replay went somewhere.
 * @property {() => void} endReplay
 */
/** @typedef {{running: boolean, replaying: boolean, over: boolean}} How */

/** Formats of a run as a file. */
const FORMATS = [
  ["html", "Web page (HTML)"],
  ["markdown", "Markdown"],
  ["json", "Data (JSON)"],
];

export class Steps {
  #agent = "";
  /** True if somebody folded it or folded it out: then it stays so. */
  #byHand = false;
  #tab = "steps";

  /** @param {import("./entries.js").RunContext} context @param {Calls} calls */
  constructor(context, calls) {
    const { run } = context;
    this.calls = calls;
    this.meter = new Meter();
    this.player = new Player(run, calls.position, calls.endReplay);
    this.graph = new GraphView(context);
    this.timeline = new Timeline(context);
    this.node = new NodePanel(context, () => this.closeNode(), (step) => this.#goTo(step));
    this.sign = h("span", { class: "status-sign" });
    this.text = h("span", { class: "status-text" });
    this.what = h("span", { class: "status-what", dir: "auto" });
    this.status = h("button", { type: "button", class: "status quiet", "aria-expanded": "false", "aria-controls": `steps-${run}`, on: { click: () => this.#toggle() } }, this.sign, h("span", { class: "status-words clip" }, this.text, " ", this.what), icon("down"));
    this.replayButton = h("button", { type: "button", class: "quiet replay", hidden: true, "aria-expanded": "false", on: { click: calls.replay } }, icon("play"), "Replay");
    this.menu = exportMenu(run);
    this.line = h("header", { class: "run-bar" }, this.status, this.meter.element, h("div", { class: "run-buttons" }, this.replayButton, this.menu));
    this.lost = h("p", { class: "lost", role: "status", hidden: true });
    this.loading = h("p", { class: "loading", hidden: true }, h("span", { class: "spinner" }), "Loading");
    this.tabs = h("div", { class: "run-tabs", role: "tablist", "aria-label": "How the steps are shown", hidden: true }, this.#tabButton("graph", "Graph", "graph"), this.#tabButton("steps", "Steps", "menu"));
    this.now = h("p", { class: "graph-now", dir: "auto", hidden: true });
    this.graphPart = h("section", { class: "run-graph", hidden: true, "aria-label": "Memory graph" }, this.graph.element, this.now, this.node.element);
    this.fold = h("button", { type: "button", class: "quiet fold-steps", on: { click: () => this.#foldAll() } });
    this.list = h("section", { class: "run-steps", "aria-label": "Steps" }, h("div", { class: "steps-head" }, this.fold), this.timeline.element);
    this.content = h("div", { class: "steps-content", id: `steps-${run}`, hidden: true }, this.player.element, this.loading, this.tabs, this.graphPart, this.list);
    this.element = h("section", { class: "steps-part", "aria-label": "How it was found" }, this.line, this.lost, this.content);
  }

  destroy() {
    this.player.close();
    this.meter.destroy();
    this.graph.destroy();
  }

  /** True if the steps are shown. */
  get open() {
    return !this.content.hidden;
  }

  set open(value) {
    if (value) this.calls.unfolded();
    this.content.hidden = !value;
    this.status.setAttribute("aria-expanded", String(value));
    this.#drawGraph();
  }

  /** Folds them, or folds them out, unless somebody has chosen. @param {boolean} open */
  suggest(open) {
    if (!this.#byHand && this.open !== open) this.open = open;
  }

  /**
   * @param {State} state
   * @param {any} drawing
   * @param {How & {known: boolean}} how `known`: the steps are loaded.
   */
  update(state, drawing, how) {
    this.#begin(state.started?.settings.agent ?? "");
    this.meter.update(state, how.running);
    this.#tellStatus(state, how);
    this.menu.hidden = how.running;
    this.replayButton.hidden = how.running || state.calls === 0;
    this.replayButton.setAttribute("aria-expanded", String(how.replaying));
    this.loading.hidden = how.known || how.running;
    this.list.classList.toggle("unknown", !how.known);
    if (!how.known) return;
    this.timeline.update(state, how.running);
    this.drawn = { drawing, state, over: how.over };
    this.#drawGraph();
    this.#tellNow(state, how.running);
    this.node.update(state);
    this.#tellFold();
  }

  /** All steps in a line each. */
  settle() {
    this.timeline.unfold(() => false);
    this.#tellFold();
  }

  /** Opens the step of a replay and closes the others. @param {number} position */
  focusStep(position) {
    this.open = true;
    this.timeline.unfold((number) => number === position);
    this.#tellFold();
    if (this.#tab === "steps") this.timeline.stepElement(position)?.scrollIntoView({ block: "start" });
  }

  /** @param {string} text Empty when the connection is there. */
  lose(text) {
    this.lost.hidden = text === "";
    this.lost.textContent = text;
  }

  /** @param {string} id @param {State} state */
  openNode(id, state) {
    this.open = true;
    this.#show("graph");
    this.node.open(id, state);
    this.graph.choose(id);
    this.node.element.scrollIntoView({ block: "nearest" });
  }

  /** @returns {boolean} Whether one was open. */
  closeNode() {
    const { id } = this.node;
    if (id === "") return false;
    this.node.close();
    this.graph.choose("");
    this.graph.focus(id);
    return true;
  }

  /** Fits the steps into print, all open. */
  openAll() {
    this.timeline.unfold(() => true);
    this.#tellFold();
  }

  #toggle() {
    this.#byHand = true;
    this.open = !this.open;
    if (this.open) this.element.scrollIntoView({ block: "nearest" }); // else they may open below the question box
  }

  /** @param {string} agent */
  #begin(agent) {
    if (agent === this.#agent) return;
    this.#agent = agent;
    this.tabs.hidden = agent !== "vimrag";
    this.#show(agent === "vimrag" ? "graph" : "steps");
  }

  /** @param {State} state @param {How} how */
  #tellStatus(state, { running, replaying, over }) {
    const ended = state.answer ?? state.failure;
    const going = running || (replaying && !ended);
    const ending = going || !(ended || over) ? null : endingOf(state);
    this.status.dataset.mood = ending?.mood ?? (running ? "running" : "calm");
    this.text.textContent = going ? state.now.text : "Steps";
    this.what.textContent = going ? quoted(state.now) : "";
    const sign = running ? "" : ending?.mood === "bad" ? "warn" : "menu";
    if (this.sign.dataset.sign !== sign) replace(this.sign, sign ? icon(sign) : h("span", { class: "status-dot" }));
    this.sign.dataset.sign = sign;
  }

  /** @param {string} name @param {string} label @param {string} sign */
  #tabButton(name, label, sign) {
    return h("button", { type: "button", role: "tab", class: `tab-${name}`, "aria-selected": name === "steps", tabindex: name === "steps" ? "0" : "-1", on: { click: () => this.#show(name), keydown: (/** @type {KeyboardEvent} */ event) => this.#tabKey(event, name) } }, icon(sign), label);
  }

  /** @param {KeyboardEvent} event @param {string} name */
  #tabKey(event, name) {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.stopPropagation();
    event.preventDefault();
    const other = name === "graph" ? "steps" : "graph";
    this.#show(other);
    /** @type {HTMLElement | null} */ (this.tabs.querySelector(`.tab-${other}`))?.focus();
  }

  /** @param {string} name */
  #show(name) {
    this.#tab = name;
    for (const tab of this.tabs.children) {
      const chosen = tab.classList.contains(`tab-${name}`);
      tab.setAttribute("aria-selected", String(chosen));
      tab.setAttribute("tabindex", chosen ? "0" : "-1");
    }
    this.graphPart.hidden = name !== "graph";
    this.list.hidden = name !== "steps";
    this.#drawGraph();
  }

  #drawGraph() {
    if (this.drawn && this.open && !this.graphPart.hidden) this.graph.update(this.drawn.drawing, this.drawn.state, this.drawn.over);
  }

  /** Below the graph: what is thought at the moment. @param {State} state @param {boolean} running */
  #tellNow(state, running) {
    const thought = running ? (state.steps.at(-1)?.thought.trim() ?? "") : "";
    this.now.hidden = thought === "";
    if (this.now.textContent !== thought) this.now.textContent = thought;
    this.now.scrollTop = this.now.scrollHeight;
  }

  /** @param {number} step */
  #goTo(step) {
    this.#show("steps");
    const element = this.timeline.stepElement(step);
    element?.scrollIntoView({ block: "start" });
    if (element?.classList.contains("closed")) element.querySelector("button")?.click();
    element?.querySelector("button")?.focus({ preventScroll: true });
  }

  #foldAll() {
    const open = !this.timeline.unfolded;
    this.timeline.unfold(() => open);
    this.#tellFold();
  }

  #tellFold() {
    const label = this.timeline.unfolded ? "Close all" : "Open all";
    this.fold.hidden = this.timeline.element.childElementCount < 2;
    if (this.fold.textContent !== label) this.fold.textContent = label;
    this.timeline.element.setAttribute("aria-label", count(this.timeline.element.childElementCount, "step"));
  }
}

/** @param {State["now"]} now */
function quoted(now) {
  if (now.what === "") return "";
  return now.kind === "searching" ? `“${now.what}”` : now.what;
}

/** @param {string} run */
function exportMenu(run) {
  const links = FORMATS.map(([format, name]) => h("li", h("a", { href: `runs/${encodeURIComponent(run)}/export?format=${format}`, download: "", dataset: { format } }, name)));
  return linkMenu({}, h("summary", { class: "button quiet" }, icon("download"), "Export"), h("ul", links));
}
