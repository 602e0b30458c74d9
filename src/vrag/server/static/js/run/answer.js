/** The end of a run: the answer with its citations, or the reason there is none and what can be done. */

import { announce, h, icon, replace, toast } from "../dom.js";
import { prose } from "./prose.js";
import { cited, placeOf, placesOf } from "./citations.js";
import { stopReason } from "./run-state.js";
import { CUT_OFF, ENDINGS, OFFLINE, NOT_FOUND } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./entries.js").RunContext} RunContext */

/** Characters. */
const [SHORT, LONG] = [180, 700];
/** Places that are named at once; the others come with a press. */
const MOST = 6;

/** The card of the answer. */
export class AnswerView {
  #context;
  /** @type {unknown} */
  #shown = undefined;

  /**
   * @param {RunContext} context
   * @param {((question: string) => void) | null} followUp Begins a question; it is filled in where it is asked again.
   */
  constructor(context, followUp) {
    this.#context = context;
    this.followUp = followUp;
    this.element = h("section", { class: "answer", id: "answer", "aria-labelledby": "answer-title", hidden: true });
  }

  /**
   * Shows how a run ended; nothing while it goes on.
   * @param {State} state
   * @param {boolean} cutOff Whether it ended without an end.
   */
  update(state, cutOff) {
    const end = state.answer ?? state.failure ?? (cutOff ? "cut off" : null);
    if (end === this.#shown) return;
    this.#shown = end;
    this.element.hidden = end === null;
    if (end === null) return;
    const ending = endingOf(state);
    this.element.className = `answer card ${ending.mood}`;
    this.element.dataset.reason = stopReason(state) ?? "interrupted";
    replace(this.element, this.#head(state, ending), this.#said(state, ending), this.#citations(state), this.#actions(state));
  }

  /** @param {State} state @param {import("./wording.js").Ending} ending */
  #head(state, ending) {
    return h("header", h("h2", { id: "answer-title", text: state.answer?.text ? "Answer" : ending.name }), state.answer?.text && ending.mood !== "ok" && h("span", { class: "chip", text: ending.name }));
  }

  /** The row or sentence of a short answer, and how it was computed. @param {any} reading */
  #reading(reading) {
    if (!reading) return [];
    return [
      reading.arithmetic && h("p", { class: "answer-arithmetic", dir: "auto", text: reading.arithmetic }),
      reading.context && h("p", { class: "answer-context soft", dir: "auto", text: reading.context }),
    ];
  }

  /** @param {State} state @param {import("./wording.js").Ending} ending */
  #said(state, ending) {
    if (state.answer?.text) {
      const offline = state.started.settings.policy === OFFLINE;
      return [
        h("div", { class: `answer-text${sizeOf(state.answer.text)}`, id: "answer-text", dir: "auto" }, prose(state.answer.text)),
        ...this.#reading(state.answer.reading),
        offline && h("p", { class: "answer-note" }, icon("report"), "Found by the offline reader, without a model."),
      ];
    }
    const message = state.failure?.message;
    return [
      h("p", { class: "answer-said", text: ending.said }),
      message && h("pre", { class: "answer-fault", dir: "auto", tabindex: "0", text: message }),
      h("p", { class: "answer-hint soft", text: ending.hint }),
    ];
  }

  /** @param {State} state */
  #citations(state) {
    const { main } = cited(state);
    const unsupported = state.answer?.unsupported ?? [];
    const places = placesOf(main);
    const label = state.answer?.text ? "Seen on" : state.answer?.stop_reason === "abstained" ? "The nearest" : "Looked at";
    return [
      main.length > 0 && h("div", { class: "citations", role: "group", "aria-label": label }, h("span", { class: "small-label", text: label }), first(main.map((one, at) => citation(one, () => this.#context.look({ ...places[at], places, at }))), MOST)),
      state.answer?.text && main.length === 0 && h("p", { class: "answer-hint soft", text: "No evidence: nothing was looked at." }),
      unsupported.length > 0 && h("div", { class: "unsupported" }, h("p", { class: "small-label", text: "Left out, since it no longer agrees with the collection" }), h("ul", unsupported.map((/** @type {string} */ text) => h("li", { class: "faint size-2", dir: "auto", text })))),
    ];
  }

  /** @param {State} state */
  #actions(state) {
    const text = state.answer?.text;
    return h(
      "div",
      { class: "answer-actions" },
      text && h("button", { type: "button", id: "copy-answer", on: { click: () => copy(textOf(state), "The answer was copied.") } }, icon("pages"), "Copy answer"),
      this.followUp && h("button", { type: "button", class: text ? "quiet" : "", id: "follow-up", on: { click: () => this.followUp?.(text ? "" : (state.started?.question ?? "")) } }, icon("answer"), text ? "Ask a follow-up" : "Ask again"),
    );
  }
}

/** A long answer is set smaller: it is read, not seen. @param {string} text */
function sizeOf(text) {
  return text.length > LONG ? " long" : text.length > SHORT ? " medium" : "";
}

/** The end of a run, in words. @param {State} state @returns {import("./wording.js").Ending} */
export function endingOf(state) {
  const reason = stopReason(state) ?? "";
  if (reason === "abstained" && state.started?.settings.policy === OFFLINE) return NOT_FOUND;
  return ENDINGS[reason] ?? CUT_OFF;
}

/** The first of some elements; a button brings the others. @param {HTMLElement[]} all @param {number} most */
function first(all, most) {
  const rest = all.slice(most);
  if (rest.length < 2) return all;
  const more = h("button", { type: "button", class: "link size-2", text: `${rest.length} more`, on: { click: () => { more.replaceWith(...rest); rest[0].focus(); } } });
  return [...all.slice(0, most), more];
}

/**
 * A citation: its number, the document, and where in it.
 * @param {import("./citations.js").Cited} one
 * @param {() => void} open
 */
export function citation({ number, evidence }, open) {
  const place = placeOf(evidence);
  return h(
    "button",
    { type: "button", class: "citation", dataset: { citation: String(number) }, title: `${evidence.document}, ${place}`, "aria-label": `Citation ${number}: ${evidence.document}, ${place}. Open`, on: { click: open } },
    h("span", { class: "number", text: number }),
    h("span", { class: "clip", dir: "auto", text: evidence.document }),
    h("span", { class: "citation-place", text: place.replace("page", "p.") }),
  );
}

/** The answer and its sources, as text. @param {State} state */
function textOf(state) {
  const { main } = cited(state);
  const sources = main.map(({ number, evidence }) => `[${number}] ${evidence.document}, ${placeOf(evidence)}`);
  return [state.answer.text, ...(sources.length ? ["", ...sources] : [])].join("\n");
}

/**
 * Puts text on the clipboard and says so.
 * @param {string} text
 * @param {string} done
 */
export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    toast(done, { kind: "ok" });
  } catch {
    toast("The browser did not allow this page to copy.", { hint: "Select the text and copy it manually.", kind: "danger" });
    announce("Copying failed.");
  }
}
