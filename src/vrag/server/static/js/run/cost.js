/** The cost of a run so far: steps, time, tokens, money. The time goes on by itself while the run does. */

import { h } from "../dom.js";
import { amount, money, seconds } from "../format.js";
import { WITHOUT_MODEL } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */

const TICK = 250;

/** The figures of a run. */
export class Meter {
  /** @type {State | null} */
  #state = null;
  /** When the last event arrived, by the clock of the page, in milliseconds. */
  #arrived = 0;
  #timer = 0;

  constructor() {
    this.steps = figure("steps", "Steps: model calls so far, and how many there may be");
    this.time = figure("time", "Time from the question");
    this.tokens = figure("tokens", "");
    this.visual = figure("visual", "Visual tokens: what the pictures took in all prompts together");
    this.cost = figure("cost", "Cost, in the currency of the prices");
    this.element = h("dl", { class: "meter", "aria-label": "What the run has cost" }, this.steps.element, this.time.element, this.tokens.element, this.visual.element, this.cost.element);
  }

  destroy() {
    clearInterval(this.#timer);
  }

  /** @param {State} state @param {boolean} running */
  update(state, running) {
    if (state !== this.#state) this.#arrived = performance.now();
    this.#state = state;
    const { totals, started } = state;
    const most = started?.settings.limits?.steps;
    const made = state.calls;
    this.steps.tell(started ? String(made) : "", `${most && running ? `of ${most} ` : ""}step${((running && most) || made) === 1 ? "" : "s"}`);
    const known = totals.prompt !== null || totals.completion !== null;
    this.tokens.tell(known ? amount((totals.prompt ?? 0) + (totals.completion ?? 0)) : "", "tokens", `Tokens: ${amount(totals.prompt)} in prompts, ${amount(totals.completion)} written`);
    const isPaid = started?.settings.policy !== WITHOUT_MODEL; // without a model nobody pays for pictures
    this.visual.tell(isPaid && totals.visual ? amount(totals.visual) : "", "visual");
    this.cost.tell(totals.cost !== null ? `cost ${money(totals.cost)}` : "");
    this.#tick(running);
    clearInterval(this.#timer);
    if (running) this.#timer = setInterval(() => this.#tick(true), TICK);
  }

  /** @param {boolean} running */
  #tick(running) {
    const state = this.#state;
    if (!state?.started) return;
    const since = running ? (performance.now() - this.#arrived) / 1000 : 0;
    this.time.tell(seconds(Math.max(0, state.ts - state.started.ts + since)));
  }
}

/** @param {string} name @param {string} title */
function figure(name, title) {
  const value = h("strong");
  const unit = h("span");
  const element = h("div", { class: "figure", title, dataset: { figure: name }, hidden: true }, h("dt", { class: "hidden-text", text: name }), h("dd", value, " ", unit));
  return {
    element,
    /** @param {string} text Empty hides it. @param {string} [of] What it counts. @param {string} [tip] */
    tell(text, of = "", tip) {
      element.hidden = text === "";
      if (value.textContent !== text) value.textContent = text;
      if (unit.textContent !== of) unit.textContent = of;
      if (tip) element.title = tip;
    },
  };
}
