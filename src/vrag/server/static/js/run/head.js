/** The question of a run: the conversation before it, the question, the pictures that came with it. */

import { h, replace } from "../dom.js";
import { fileUrl } from "./figures.js";
import { count, METHODS, OFFLINE, when } from "./wording.js";

/** Characters. */
const [LONG, VERY_LONG] = [140, 500];

/**
 * @param {Element} element
 * @param {any} started The `run_started`.
 * @param {string} run
 */
export function showHead(element, started, run) {
  const { settings, history = [], attached = [], notices = [] } = started;
  const model = settings.policy === OFFLINE ? "offline, quotes" : settings.policy;
  const facts = [METHODS[settings.agent] ?? settings.agent, model, settings.environment?.collection, when(started.ts)];
  replace(
    element,
    history.length > 0 && earlier(history),
    question(started.question),
    attached.length > 0 && h("ul", { class: "attached", "aria-label": "Pictures with the question" }, attached.map((/** @type {string} */ sha256, /** @type {number} */ index) => h("li", h("img", { src: fileUrl(run, sha256), alt: `Picture ${index + 1} of the question` })))),
    notices.map((/** @type {string} */ text) => h("p", { class: "caution", role: "note", text })),
    h("p", { class: "facts" }, facts.filter(Boolean).map((fact) => h("span", { dir: "auto", text: fact }))),
  );
}

/** A long question is set smaller, a very long one folded up. @param {string} text */
function question(text) {
  const heading = h("h1", { class: `question${text.length > LONG ? " long" : ""}${text.length > VERY_LONG ? " folded" : ""}`, id: "question", dir: "auto", text });
  if (text.length <= VERY_LONG) return heading;
  const whole = h("button", { type: "button", class: "link size-2", text: "Whole question", on: { click: () => { heading.classList.remove("folded"); whole.remove(); } } });
  return [heading, whole];
}

/** @param {{question: string, answer: string | null}[]} history */
function earlier(history) {
  const turns = history.map(({ question, answer }) => h("div", { class: "exchange" }, h("dt", { dir: "auto", text: question }), h("dd", { dir: "auto", class: answer === null ? "faint" : "", text: answer ?? "No answer." })));
  return h("details", { class: "more earlier", id: "earlier" }, h("summary", `${count(history.length, "earlier question")} of this conversation`), h("dl", turns));
}
