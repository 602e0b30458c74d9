/** The end of a run: the answer with its citations, or the reason there is none and what can be done. */

import { announce, h, icon, replace, toast } from "../dom.js";
import { citeHash } from "../router.js";
import { prose } from "./prose.js";
import { checkedText, citationsOf, cited, placeOf, placesOf } from "./citations.js";
import { markedText, pieces, signedText } from "./cited-text.js";
import { stopReason } from "./run-state.js";
import { claimParts, claimSummary, claimText, notableClaims } from "./verdicts.js";
import { CUT_OFF, ENDINGS, OFFLINE, NOT_FOUND, WITHDRAWN } from "./wording.js";

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
        this.#text(state),
        ...this.#reading(state.answer.reading),
        offline && h("p", { class: "answer-note" }, icon("report"), "Found by the offline reader, without a model."),
        this.#claims(state),
      ];
    }
    const message = state.failure?.message;
    return [
      h("p", { class: "answer-said", text: ending.said }),
      state.answer?.withdrawn && [this.#text(state), this.#claims(state)],
      message && h("pre", { class: "answer-fault", dir: "auto", tabindex: "0", text: message }),
      h("p", { class: "answer-hint soft", text: ending.hint }),
    ];
  }

  /** The answer, or the one that was withdrawn, with its markers and the claims that are not supported. @param {State} state */
  #text(state) {
    const text = checkedText(state);
    const claims = notableClaims(state.answer.claims ?? []);
    const numbered = new Map(cited(state).main.map((one) => [one.number, one]));
    const leaf = pieces({
      marker: (number) => this.#marker(number, state, numbered),
      claim: (index, words) => h("mark", { class: "claim", dataset: { verdict: claims[index].verdict }, title: claimText(text, claims[index]), "aria-describedby": `claim-${index}` }, words),
    });
    const withdrawn = state.answer.text === null;
    return h("div", { class: `answer-text${sizeOf(text)}${withdrawn ? " withdrawn" : ""}`, id: "answer-text", dir: "auto" }, prose(signedText(text, citationsOf(state), claims), leaf));
  }

  /** A marker: it opens its place, and points out its evidence. @param {number} number @param {State} state @param {Map<number, import("./citations.js").Cited>} numbered */
  #marker(number, state, numbered) {
    const evidence = numbered.get(number)?.evidence;
    const name = evidence ? `${evidence.document}, ${placeOf(evidence)}` : "";
    const open = (/** @type {MouseEvent} */ event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in a window of its own
      event.preventDefault();
      openCitation(this.#context, state, number);
    };
    const point = () => this.#context.point(number);
    const leave = () => this.#context.point(null);
    return h("a", { class: "marker", href: citeHash(this.#context.run, number), dataset: { marker: String(number) }, title: name, "aria-label": `Evidence ${number}: ${name}`, on: { click: open, mouseenter: point, focus: point, mouseleave: leave, blur: leave } }, `[${number}]`);
  }

  /** What the evidence says about the claims: a sentence for each that is not supported. @param {State} state */
  #claims(state) {
    const { claims = [] } = state.answer;
    if (claims.length === 0) return null;
    const text = checkedText(state);
    const notable = notableClaims(claims);
    const contradicted = claims.some((/** @type {any} */ claim) => claim.verdict === "contradicted");
    const numbered = new Map(cited(state).main.map((one) => [one.number, one]));
    const sentence = (/** @type {any} */ claim) => claimParts(text, claim).map((part) => (typeof part === "number" ? this.#marker(part, state, numbered) : part));
    const lines = notable.map((claim, index) => h("li", { id: `claim-${index}`, class: "claim-line" }, h("span", { class: "claim", dataset: { verdict: claim.verdict }, "aria-hidden": true, text: "\u2003" }), h("span", { dir: "auto" }, sentence(claim))));
    return h("div", { class: "claims", id: "claims", dataset: { mood: contradicted ? "bad" : notable.length ? "fair" : "ok" } }, h("p", { class: "claims-summary" }, icon(notable.length ? "warn" : "check"), claimSummary(claims)), lines.length > 0 && h("ul", lines));
  }

  /** @param {State} state */
  #citations(state) {
    const { main } = cited(state);
    const unsupported = state.answer?.unsupported ?? [];
    const label = checkedText(state) ? "Seen on" : state.answer?.stop_reason === "abstained" ? "The nearest" : "Looked at";
    return [
      main.length > 0 && h("div", { class: "citations", role: "group", "aria-label": label }, h("span", { class: "small-label", text: label }), first(main.map((one) => citation(one, () => openCitation(this.#context, state, one.number))), MOST)),
      state.answer?.text && main.length === 0 && h("p", { class: "answer-hint soft", text: "No evidence: nothing was looked at." }),
      unsupported.length > 0 && h("div", { class: "unsupported" }, h("p", { class: "small-label", text: "Left out of the evidence" }), h("ul", unsupported.map((/** @type {string} */ text) => h("li", { class: "faint size-2", dir: "auto", text })))),
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
  if (state.answer?.withdrawn) return WITHDRAWN;
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

/** The answer with its markers, and its sources, as text. @param {State} state */
export function textOf(state) {
  const { main } = cited(state);
  const sources = main.map(({ number, evidence }) => `[${number}] ${evidence.document}, ${placeOf(evidence)}`);
  return [markedText(state.answer.text, citationsOf(state)), ...(sources.length ? ["", ...sources] : [])].join("\n");
}

/**
 * Opens the place of a piece of evidence, cited or looked at besides.
 * @param {RunContext} context
 * @param {State} state
 * @param {number} number
 */
export function openCitation(context, state, number) {
  const { main, besides } = cited(state);
  const places = placesOf(number > main.length ? besides : main);
  const at = number > main.length ? number - main.length - 1 : number - 1;
  if (places[at]) context.look({ ...places[at], places, at });
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
