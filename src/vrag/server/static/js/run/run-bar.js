/** The line above a run: what goes on, what it cost, stop, replay, export. */

import { del, Problem } from "../api.js";
import { h, icon, replace, toast } from "../dom.js";
import { endingOf } from "./answer.js";
import { Meter } from "./cost.js";

/** @typedef {import("./reducer.js").State} State */

/** Formats of a run as a file. */
const FORMATS = [
  ["html", "Web page (HTML)"],
  ["markdown", "Markdown"],
  ["json", "Data (JSON)"],
];

/** The line above a run. */
export class RunBar {
  /** @param {string} run @param {() => void} replay */
  constructor(run, replay) {
    this.run = run;
    this.meter = new Meter();
    this.sign = h("span", { class: "status-sign" });
    this.text = h("span", { class: "status-text" });
    this.what = h("span", { class: "status-what", dir: "auto" });
    this.status = h("p", { class: "status", id: "status" }, this.sign, h("span", { class: "status-words clip" }, this.text, " ", this.what));
    this.stopButton = h("button", { type: "button", id: "stop", class: "stop", hidden: true, title: "Stop the run (Esc)", on: { click: () => this.stop() } }, icon("stop"), "Stop");
    this.replayButton = h("button", { type: "button", id: "replay", class: "quiet", hidden: true, "aria-expanded": "false", "aria-controls": "player", on: { click: replay } }, icon("play"), "Replay");
    this.menu = exportMenu(run);
    this.lost = h("p", { class: "lost", id: "lost", role: "status", hidden: true });
    this.element = h("div", { class: "run-bar" }, this.status, this.meter.element, h("div", { class: "run-buttons" }, this.replayButton, this.menu, this.stopButton), this.lost);
  }

  destroy() {
    this.meter.destroy();
  }

  /** @param {State} state @param {{running: boolean, replaying: boolean, over: boolean}} how */
  update(state, { running, replaying, over }) {
    this.meter.update(state, running);
    this.stopButton.hidden = !running;
    this.menu.hidden = running;
    this.replayButton.hidden = running || state.steps.length === 0;
    this.replayButton.setAttribute("aria-expanded", String(replaying));
    const ended = state.answer ?? state.failure;
    const going = running || (replaying && !ended);
    const ending = going || !(ended || over) ? null : endingOf(state);
    this.status.dataset.mood = ending?.mood ?? (running ? "running" : "calm");
    this.text.textContent = ending?.name ?? state.now.text;
    this.what.textContent = ending ? "" : quoted(state.now);
    const sign = ending ? (ending.mood === "ok" ? "check" : ending.mood === "bad" ? "warn" : "dot") : "";
    if (this.sign.dataset.sign !== sign) replace(this.sign, sign ? icon(sign) : h("span", { class: "status-dot" }));
    this.sign.dataset.sign = sign;
  }

  /** @param {string} text Empty when the connection is there. */
  lose(text) {
    this.lost.hidden = text === "";
    this.lost.textContent = text;
  }

  /** Asks the server to end the run; what it had seen stays. */
  async stop() {
    if (this.stopButton.hidden || this.stopButton.hasAttribute("disabled")) return;
    this.#stopping(true);
    try {
      await del(`/runs/${encodeURIComponent(this.run)}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      toast("The run could not be stopped.", { kind: "danger", hint: error.detail });
      this.#stopping(false);
    }
  }

  /** @param {boolean} stopping */
  #stopping(stopping) {
    this.stopButton.toggleAttribute("disabled", stopping);
    replace(this.stopButton, icon("stop"), stopping ? "Stopping" : "Stop");
  }
}

/** @param {State["now"]} now */
function quoted(now) {
  if (now.what === "") return "";
  return now.kind === "searching" ? `“${now.what}”` : now.what;
}

/** @param {string} run */
function exportMenu(run) {
  const links = FORMATS.map(([format, name]) => h("li", h("a", { href: `/runs/${encodeURIComponent(run)}/export?format=${format}`, download: "", dataset: { format } }, name)));
  const menu = h("details", { class: "menu", id: "export" }, h("summary", { class: "button quiet" }, icon("download"), "Export"), h("ul", { class: "menu-list card" }, links));
  const close = () => menu.removeAttribute("open");
  menu.addEventListener("click", (event) => /** @type {Element} */ (event.target).closest("a") && close());
  menu.addEventListener("focusout", (event) => !menu.contains(/** @type {Node | null} */ (event.relatedTarget)) && setTimeout(() => !menu.contains(document.activeElement) && close(), 150));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.hasAttribute("open")) return;
    event.stopPropagation();
    close();
    menu.querySelector("summary")?.focus();
  });
  return menu;
}
