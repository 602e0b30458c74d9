/** The answer of a turn: as it is written, as it stands with its citations, or the reason there is none and what can be done. */

import { announce, h, icon, replace, toast } from "../dom.js";
import { count, where } from "../format.js";
import { rewriteForPage } from "../messages.js";
import { chip, chipsIn, listenToChips, nameChips } from "./chips.js";
import { checkedText, citationsOf, cited, placeOf, placesOf } from "./citations.js";
import { markedText, marksIn } from "./cited-text.js";
import { conflictList, isUndoubted } from "./conflicts.js";
import { placeList } from "./places.js";
import { ProseView } from "./prose.js";
import { refusals, stopReason } from "./run-state.js";
import { claimParts, claimSummary, claimText, listedClaims, notableClaims, readerRemark } from "./verdicts.js";
import { CUT_OFF, ENDINGS, formatLost, FOUND_ON_PAGE, NOTHING, PLACES, WITHDRAWN, WITHOUT_MODEL } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./entries.js").RunContext} RunContext */
/**
 * What can be done about a question without an answer.
 * @typedef {object} Remedies
 * @property {(question: string, attached: readonly string[]) => void} edit Puts it into the box with its pictures, to be changed or asked again.
 * @property {(question: string, attached: readonly string[]) => void} choose The same, with the options open.
 * @property {(state: State, steps: number) => void} more Asks it again with so many steps.
 * @property {(state: State, document: string) => void} only Asks it again of one document, by its id.
 * @property {number} steps How many a question may have.
 */

/** The card of the answer. */
export class AnswerView {
  /** @type {unknown} */
  #shown = null;
  /** @type {State | null} */
  #state = null;
  #context;

  /** @param {RunContext} context @param {Remedies | null} remedies None where nothing can be asked again. */
  constructor(context, remedies) {
    this.#context = context;
    this.remedies = remedies;
    this.title = h("h2", { class: "answer-title" });
    this.said = h("p", { class: "answer-said", hidden: true });
    this.text = h("div", { class: "answer-text", dir: "auto", hidden: true });
    this.more = h("div", { class: "answer-more" });
    this.prose = new ProseView(this.text);
    this.element = h("section", { class: "answer card", "aria-label": "Answer", hidden: true }, this.title, this.said, this.text, this.more);
    listenToChips(this.element, {
      open: (number) => this.#state && openCitation(context, this.#state, number),
      point: (number) => context.point(number),
      place: (number) => this.#places.find((one) => one.number === number),
    });
  }

  /** The places that the answer cites. @returns {import("./citations.js").Cited[]} */
  get #places() {
    return this.#state ? cited(this.#state).main : [];
  }

  /**
   * Shows the answer as far as it is written, or how a run ended; nothing before either.
   * @param {State} state
   * @param {boolean} cutOff Whether it ended without an end.
   */
  update(state, cutOff) {
    const end = state.answer ?? state.failure ?? (cutOff ? "cut off" : null);
    const shown = end ?? state.draft;
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#state = state;
    this.element.hidden = shown === null;
    if (shown === null) return;
    const ending = end === null ? null : endingOf(state);
    this.element.dataset.reason = end === null ? "" : (stopReason(state) ?? "interrupted");
    this.element.className = `answer card ${ending === null ? "draft" : ending.mood === "ok" && isUnsure(state) || isContested(state) ? "fair" : ending.mood}`;
    this.element.setAttribute("aria-busy", String(end === null));
    this.#head(state, ending);
    this.#words(state, end === null);
    replace(this.more, ending && [this.#reading(state), this.#trust(state), conflictList(state.conflicts, this.#context), this.#choices(state), ending === PLACES && this.#placeList(state), this.#reason(state, ending), this.#remarks(state), this.#actions(state, ending)]);
    nameChips(this.element, this.#context.run, this.#places);
  }

  /** Points out the chips and the place of a number; null ends it. @param {number | null} number */
  point(number) {
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (this.more.querySelectorAll("[data-place]"))) one.classList.toggle("pointed", one.dataset.place === String(number));
    for (const one of chipsIn(this.text)) one.classList.toggle("pointed", one.dataset.marker === String(number));
  }

  /** @param {State} state @param {import("./wording.js").Ending | null} ending */
  #head(state, ending) {
    const answered = ending === null || Boolean(state.answer?.text);
    const note = answered && ending ? noteOf(state, ending) : "";
    replace(this.title, answered ? "Answer" : ending.name, note && h("span", { class: "chip", text: note }));
    this.title.classList.toggle("hidden-text", answered && !note);
    this.said.hidden = answered;
    this.said.textContent = answered ? "" : state.answer?.absence || ending.said;
  }

  /** The answer, or the one that was withdrawn, with its chips and the claims that the evidence does not say. @param {State} state @param {boolean} open */
  #words(state, open) {
    const text = checkedText(state);
    const claims = isWithoutModel(state) ? [] : notableClaims(state.answer?.claims ?? []);
    const marks = marksIn(text, citationsOf(state), claims);
    this.text.hidden = text === "";
    this.text.classList.toggle("withdrawn", Boolean(state.answer?.withdrawn));
    this.text.classList.toggle("writing", open);
    const claim = (/** @type {number} */ index, /** @type {string | Node} */ words) => h("mark", { class: "claim", dataset: { verdict: claims[index].verdict }, title: claimText(text, claims[index]), "aria-describedby": this.#claimId(index) }, words);
    this.prose.show(text, { ...marks, chip, claim }, open, isWithoutModel(state));
  }

  /** @param {number} number */
  #pageName(number) {
    const place = this.#places.find((one) => one.number === number);
    return place ? where(place.evidence) : "";
  }

  /** @param {number} index */
  #claimId(index) {
    return `claim-${index}-${this.#context.run}`;
  }

  /** The row or sentence of a short answer, and how it was computed. @param {State} state */
  #reading(state) {
    const { text = null, reading = null } = state.answer ?? {};
    if (!text || !reading) return null;
    return [
      reading.arithmetic && h("p", { class: "answer-arithmetic", dir: "auto", text: reading.arithmetic }),
      reading.context && h("p", { class: "answer-context soft", dir: "auto", text: reading.context }),
    ];
  }

  /** The places of a run without an answer. @param {State} state */
  #placeList(state) {
    const list = placeList(state, (number) => openCitation(this.#context, state, number));
    const point = (/** @type {Event} */ event) => {
      const item = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest("[data-place]"));
      this.#context.point(item ? Number(item.dataset.place) : null);
    };
    for (const type of ["pointerover", "focusin"]) list.addEventListener(type, point);
    for (const type of ["pointerleave", "focusout"]) list.addEventListener(type, () => this.#context.point(null));
    return list;
  }

  /** How much of the answer is verified; of an answer without a model, how its words were found. @param {State} state */
  #trust(state) {
    const { text = null, claims = [] } = state.answer ?? {};
    if (!isWithoutModel(state)) return this.#claims(state);
    return text && h("p", { class: "answer-note" }, icon("report"), readerRemark(claims, (number) => this.#pageName(number)));
  }

  /** What was left out of the evidence of the answer. @param {State} state */
  #remarks(state) {
    const { text = null, unsupported = [], cited: known } = state.answer ?? {};
    return [
      text && known !== null && this.#places.length === 0 && h("p", { class: "answer-hint soft", text: "No evidence: nothing was looked at." }),
      unsupported.length > 0 && h("div", { class: "unsupported" }, h("p", { class: "small-label", text: "Not used" }), h("ul", unsupported.map((/** @type {string} */ line) => h("li", { class: "faint size-2", dir: "auto", text: line })))),
    ];
  }

  /** The documents that the question may be about, each to be asked alone. @param {State} state */
  #choices(state) {
    /** @type {{document: string, name: string}[]} */
    const choices = state.answer?.choices ?? [];
    if (choices.length === 0) return null;
    const ask = this.remedies?.only;
    const buttons = choices.map(({ document, name }) => h("button", { type: "button", class: "chip accent choice", title: `Ask only ${name}`, "aria-label": `Ask only ${name}`, disabled: !ask, on: { click: () => ask?.(state, document) } }, h("span", { class: "clip", dir: "auto", text: name })));
    return h("div", { class: "document-choices", role: "group", "aria-label": "Documents that the question may be about" }, h("p", { class: "answer-note" }, icon("pages"), ask ? "The question may be about any of these documents. Choose one to search only that document:" : "The question may be about any of these documents:"), h("div", { class: "document-choices-list" }, buttons));
  }

  /** The reason there is no answer. @param {State} state @param {import("./wording.js").Ending} ending */
  #reason(state, ending) {
    if (state.answer?.text) return null;
    const message = state.failure?.message ?? (refusals(state) ? lastRefusal(state) : "");
    const documents = state.started?.settings.environment?.documents;
    return [message && h("pre", { class: "answer-fault", dir: "auto", tabindex: "0", text: rewriteForPage(message) }), h("p", { class: "answer-hint soft", text: ending.hint }), documents && h("p", { class: "answer-hint soft only-chosen", text: `Only ${count(documents.length, "chosen document")} ${documents.length === 1 ? "was" : "were"} searched. Ask all documents with the button in the question box.` })];
  }

  /** How much of the answer is verified, in a line that folds out to what the evidence says about each claim. @param {State} state */
  #claims(state) {
    const { claims = [] } = state.answer ?? {};
    if (claims.length === 0) return null;
    const text = checkedText(state);
    const notable = notableClaims(claims);
    const sentence = (/** @type {any} */ claim) => claimParts(text, claim).map((part) => (typeof part === "number" ? chip(part) : part));
    const line = (/** @type {any} */ claim) => h("li", { id: notable.includes(claim) ? this.#claimId(notable.indexOf(claim)) : null, class: "claim-line" }, h("span", { class: "claim", dataset: { verdict: claim.verdict }, "aria-hidden": true, text: "\u2003" }), h("span", { dir: "auto" }, sentence(claim)));
    const isDoubtful = claims.some((/** @type {any} */ claim) => claim.verdict === "doubted");
    const mood = isDoubtful ? "bad" : notable.length ? "fair" : "ok";
    return h("details", { class: "claims", dataset: { mood }, open: isDoubtful }, h("summary", { class: "claims-summary" }, icon(notable.length ? "warn" : "report"), h("span", claimSummary(claims)), icon("down")), h("ul", listedClaims(claims).map(line)));
  }

  /** @param {State} state @param {import("./wording.js").Ending} ending */
  #actions(state, ending) {
    const { question = "", attached = [] } = state.started ?? {};
    const text = state.answer?.text;
    const button = (/** @type {string} */ label, /** @type {string} */ sign, /** @type {() => void} */ click, more = {}) => h("button", { type: "button", ...more, on: { click } }, icon(sign), label);
    if (text) return h("div", { class: "answer-actions" }, button("Copy answer", "pages", () => copy(textOf(state), "The answer was copied."), { class: "quiet copy-answer" }));
    if (!this.remedies) return null;
    const { edit, choose, more, steps: most } = this.remedies;
    const steps = Math.min(most, 2 * (state.started?.settings.limits?.steps ?? 0));
    const mayHaveMore = stopReason(state) === "out_of_steps" && !refusals(state) && steps > (state.started?.settings.limits?.steps ?? 0);
    const first = mayHaveMore ? button(`Ask again with ${steps} steps`, "answer", () => more(state, steps), { class: "primary ask-more" }) : refusals(state) || ending === NOTHING || ending === PLACES || stopReason(state) === "model_error" ? button(isWithoutModel(state) ? "Choose a model" : "Choose another model", "sliders", () => choose(question, attached), { class: "primary" }) : null;
    return h("div", { class: "answer-actions" }, first, button("Ask again", "answer", () => edit(question, attached), { class: "ask-again" }));
  }
}

/** Why the last reply was refused that was. @param {State} state @returns {string} */
function lastRefusal(state) {
  return state.steps.flatMap((step) => step.entries).findLast((one) => one.kind === "refused")?.reason ?? "";
}

/** True if something else is said in place of a claim of the answer. @param {State} state */
const isDoubted = (state) => (state.answer?.text && !isWithoutModel(state) ? (state.answer.claims ?? []) : []).some((/** @type {any} */ claim) => claim.verdict === "doubted");

/** True if the evidence does not say something of the answer. @param {State} state */
const isUnsure = (state) => notableClaims(state.answer?.claims ?? []).length > 0;

/** True if the evidence or another document says something else than the answer, and the model does not doubt that. @param {State} state */
const isContested = (state) => isDoubted(state) || state.conflicts.some(isUndoubted);

/** What is to be known before an answer is read; empty where there is nothing. @param {State} state @param {import("./wording.js").Ending} ending */
function noteOf(state, ending) {
  if (isDoubted(state)) return state.answer.claims.every((/** @type {any} */ claim) => claim.kind !== "sentence" || claim.verdict === "doubted") ? "Doubted" : "Doubted in part";
  if (state.conflicts.some(isUndoubted)) return "Sources disagree";
  return ending.mood === "ok" ? "" : ending.name;
}

/** True if the question is answered without a model: by quotes, without Markdown. @param {State} state */
export function isWithoutModel(state) {
  return state.started?.settings.policy === WITHOUT_MODEL;
}

/** The end of a run, in words. @param {State} state @returns {import("./wording.js").Ending} */
export function endingOf(state) {
  const reason = stopReason(state) ?? "";
  if (state.answer?.withdrawn) return WITHDRAWN;
  if (reason === "abstained" && isWithoutModel(state)) return state.answer?.evidence.length ? PLACES : NOTHING;
  if (reason === "answered" && isWithoutModel(state)) return FOUND_ON_PAGE;
  const refused = reason === "out_of_steps" || reason === "out_of_tokens" ? refusals(state) : 0;
  return refused ? formatLost(refused, state.steps.length) : (ENDINGS[reason] ?? CUT_OFF);
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
