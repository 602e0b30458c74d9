/** The question of a turn: what was asked before it elsewhere, the question, the pictures that came with it. */

import { chosenFact } from "../chosen-tray.js";
import { h, iconButton, replace } from "../dom.js";
import { count, when } from "../format.js";
import { rewriteForPage } from "../messages.js";
import { fileUrl } from "./figures.js";
import { prose } from "./prose.js";
import { METHODS, WITHOUT_MODEL } from "./wording.js";

/** Characters. */
const [LONG, VERY_LONG] = [140, 500];

export class Head {
  /** @type {unknown} */
  #shown = null;

  /** @type {readonly string[]} Pictures that came with the question. */
  #attached = [];

  /** @param {string} run @param {string} question @param {((question: string, attached: readonly string[]) => void) | null} edit None where it cannot be asked again. */
  constructor(run, question, edit) {
    this.run = run;
    this.asked = question;
    this.question = h("h1", { class: `question${question.length > LONG ? " long" : ""}${question.length > VERY_LONG ? " folded" : ""}`, dir: "auto", tabindex: "-1", text: question });
    const whole = question.length > VERY_LONG && h("button", { type: "button", class: "link size-2", text: "Whole question", on: { click: (/** @type {Event} */ event) => { this.question.classList.remove("folded"); /** @type {Element} */ (event.target).remove(); } } });
    this.before = h("div", { class: "run-before" }); // seen where no earlier turn stands above it
    this.more = h("div", { class: "run-about" });
    const change = edit && iconButton("edit", "Change the question and ask again", { class: "edit-question", on: { click: () => edit(question, this.#attached) } });
    this.element = h("header", { class: "run-head" }, this.before, h("div", { class: "question-line" }, this.question, change), whole, this.more);
  }

  /** @param {any} started The `run_started`, or as much of it as is known. */
  update(started) {
    if (started === this.#shown) return;
    this.#shown = started;
    const { settings, history = [], attached = [], notices = [], ts } = started;
    this.#attached = attached;
    const model = settings.policy === WITHOUT_MODEL ? "without a model" : settings.policy;
    const facts = [METHODS[settings.agent] ?? settings.agent, model, settings.environment?.collection, when(ts)];
    const documents = settings.environment?.documents;
    replace(this.before, history.length > 0 && earlier(history));
    replace(
      this.more,
      attached.length > 0 && h("ul", { class: "attached", "aria-label": "Pictures with the question" }, attached.map((/** @type {string} */ sha256, /** @type {number} */ index) => h("li", h("img", { src: fileUrl(this.run, sha256), alt: `Picture ${index + 1} of the question` })))),
      notices.map((/** @type {string} */ text) => h("p", { class: "caution", role: "note", text: rewriteForPage(text) })),
      h("p", { class: "facts" }, facts.filter(Boolean).map((fact) => h("span", { dir: "auto", text: fact })), documents && chosenFact(documents)),
    );
  }
}

/** @param {{question: string, answer: string | null}[]} history */
function earlier(history) {
  const turns = history.map(({ question, answer }) => h("div", { class: "exchange" }, h("dt", { dir: "auto", text: question }), answer === null ? h("dd", { class: "faint", text: "No answer." }) : h("dd", { class: "prose" }, prose(answer))));
  return h("details", { class: "more earlier" }, h("summary", `${count(history.length, "earlier question")} of this conversation`), h("dl", turns));
}
