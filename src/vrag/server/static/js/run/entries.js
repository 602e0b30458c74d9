/** The entries of a step, as elements: hits, pictures, crops beside their page, refusals, memory. */

import { h, icon } from "../dom.js";
import { amount, count, moment, seconds, where } from "../format.js";
import { rewriteForPage } from "../messages.js";
import { conflictList } from "./conflicts.js";
import { described, isWhole, itemUrl, fileUrl, placed, figureButton, thumb } from "./figures.js";
import { prose } from "./prose.js";
import { claimText, notableClaims } from "./verdicts.js";

/** @typedef {import("./reducer.js").Entry} Entry */
/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./reducer.js").Shown} Shown */
/**
 * The part of the page that the entries use.
 * @typedef {object} RunContext
 * @property {string} run Id of the run.
 * @property {(place: Place) => void} look Opens the page viewer.
 * @property {(node: string) => void} node Opens a node of the graph.
 * @property {(number: number | null) => void} point Points out the evidence of a number; null ends it.
 */
/** @typedef {{item: string, document: string, boxes?: {box: import("./reducer.js").Sides, label?: string, kind?: string}[], flash?: number, seconds?: number, quote?: string, places?: any[], at?: number}} Place */

/** Hits of a search whose thumbnails are there at once; the others come with a press. */
const HITS = 10;

/**
 * The element of an entry; null for one that its step tells already.
 * @param {Entry} entry
 * @param {State} state
 * @param {RunContext} context
 * @returns {HTMLElement | null}
 */
export function entryElement(entry, state, context) {
  return DRAWN[entry.kind]?.(entry, state, context) ?? null;
}

/** @type {Record<string, (entry: any, state: State, context: RunContext) => HTMLElement | null>} */
const DRAWN = {
  search: hits,
  pictures: (entry, state, context) => shownPictures(entry.pictures, state, context),
  closer,
  passages,
  tool,
  memory,
  refused: (entry) => note("refused", "warn", "Not carried out.", `${entry.reason} The agent was informed and continues.`),
  retry,
  doubted,
};

/** An answer that the evidence or another document does not support, and what they say. @param {any} entry @param {State} _state @param {RunContext} context */
function doubted({ text, claims, conflicts }, _state, context) {
  const lines = notableClaims(claims).map((claim) => h("li", { dir: "auto", text: claimText(text, claim) }));
  const answer = h("div", { class: "doubted-answer prose" }, prose(text));
  const disagreeing = conflictList(conflicts, context);
  if (disagreeing) return note("doubted", "warn", "Documents that were shown disagree.", "The model was shown both sides and asked again.", answer, h("ul", lines), disagreeing);
  return note("doubted", "warn", "The evidence does not support all of this answer.", "The agent was informed and may search again.", answer, h("ul", lines));
}

/**
 * Opens the page that a picture is of, with the part that was shown.
 * @param {RunContext} context
 * @param {Shown} shown
 */
export function lookAt(context, shown) {
  const boxes = isWhole(shown.box) ? [] : [{ box: shown.box, label: shown.label || "Looked at", kind: "mark" }];
  context.look({ item: shown.item, document: shown.document, boxes, flash: boxes.length ? 0 : undefined, seconds: shown.seconds ?? undefined });
}

/**
 * A sentence apart, with its sign.
 * @param {string} kind
 * @param {string} sign
 * @param {string} strong
 * @param {string} text
 * @param {...Node} more
 */
export function note(kind, sign, strong, text, ...more) {
  return h("div", { class: `remark ${kind}` }, icon(sign), h("div", h("p", { dir: "auto" }, h("strong", strong), " ", text), more));
}

/** @param {any} entry @param {State} state @param {RunContext} context */
function hits(entry, state, context) {
  const damaged = lacking("Not everything could be shown.", entry.damaged);
  if (entry.hits === null && !entry.waiting) return null;
  if (entry.hits === null) {
    const blanks = Array.from({ length: 5 }, () => h("span", { class: "thumb blank pulse" }, h("span", { class: "thumb-frame" })));
    return h("div", { class: "act hits" }, h("div", { class: "strip", "aria-hidden": true }, blanks), h("p", { class: "hidden-text", text: "Searching" }));
  }
  if (entry.hits.length === 0) return h("div", { class: "act hits" }, h("p", { class: "faint size-2", text: "Nothing was found." }), damaged);
  const strip = h("div", { class: "strip", role: "group", "aria-label": `${count(entry.hits.length, "hit")} found` }, entry.hits.slice(0, HITS).map((/** @type {any} */ hit) => hitThumb(hit, context)));
  return h("div", { class: "act hits" }, h("p", { class: "small-label", text: `${count(entry.hits.length, "hit")}, best first` }), strip, more(entry.hits.slice(HITS), strip, context), damaged);
}

/**
 * Marks the hits that the agent was shown in this step; when it was shown all of them, they are hidden.
 * @param {HTMLElement} entries Of the step.
 * @param {readonly Entry[]} stepEntries
 */
export function markShown(entries, stepEntries) {
  const shown = new Set(stepEntries.flatMap((one) => one.pictures ?? one.passages ?? []).map((/** @type {any} */ one) => one.item));
  for (const hit of /** @type {NodeListOf<HTMLElement>} */ (entries.querySelectorAll(".hits .thumb:not(.shown)"))) {
    if (!shown.has(hit.dataset.item)) continue;
    hit.classList.add("shown");
    hit.setAttribute("aria-label", `${hit.title}, shown to the agent. Open`);
  }
  for (const hits of /** @type {NodeListOf<HTMLElement>} */ (entries.querySelectorAll(".hits"))) {
    hits.hidden = hits.querySelector(".shown") !== null && hits.querySelector(".thumb:not(.shown), .remark") === null;
  }
}

/** @param {any} hit @param {RunContext} context */
function hitThumb(hit, context) {
  const place = where({ kind: hit.kind, page: hit.ordinal });
  const label = `${hit.document_name}, ${place}, hit ${hit.rank}`;
  return thumb({
    item: hit.item,
    kind: hit.kind,
    label,
    caption: `${place.replace("page", "p.")} · ${hit.document_name}`,
    open: () => context.look({ item: hit.item, document: hit.document_name }),
  });
}

/** Results that could not be shown, and the reasons. @param {string} strong @param {string[]} reasons */
function lacking(strong, reasons) {
  return reasons.length > 0 && note("lacking", "warn", strong, "", h("ul", reasons.map((reason) => h("li", { dir: "auto", text: rewriteForPage(reason) }))));
}

/** @param {any[]} rest @param {HTMLElement} strip @param {RunContext} context */
function more(rest, strip, context) {
  if (rest.length === 0) return null;
  const button = h("button", { type: "button", class: "link size-2", text: `${rest.length} more`, on: { click: () => { strip.append(...rest.map((hit) => hitThumb(hit, context))); button.remove(); } } });
  return button;
}

/**
 * Pictures that were shown together: pages side by side, frames of a clip as a strip.
 * @param {readonly Shown[]} pictures
 * @param {State} state
 * @param {RunContext} context
 */
function shownPictures(pictures, state, context) {
  const frames = pictures.filter((shown) => shown.seconds !== null);
  const pages = pictures.filter((shown) => shown.seconds === null);
  return h(
    "div",
    { class: "act looked" },
    pages.length > 0 && h("div", { class: `figures n${Math.min(pages.length, 3)}` }, pages.map((shown) => pageFigure(shown, context))),
    byLabel(frames).map((group) => film(group, context)),
  );
}

/** @param {Shown} shown @param {RunContext} context */
function pageFigure(shown, context) {
  return h("figure", { class: "looked-page" }, figureButton({ run: context.run, shown, open: () => lookAt(context, shown) }), caption(shown));
}

/** @param {Shown} shown */
function caption(shown) {
  const label = shown.label && !/^Image \d+$/.test(shown.label) ? `${shown.label} · ` : "";
  const title = `${shown.width} × ${shown.height} px, ${amount(shown.visual_tokens)} visual tokens`;
  return h("figcaption", { dir: "auto", title }, h("span", { class: "faint", text: label }), shown.document, h("span", { class: "faint", text: `, ${where(shown)}` }));
}

/** @param {readonly Shown[]} frames @returns {Shown[][]} */
function byLabel(frames) {
  /** @type {Map<string, Shown[]>} */
  const groups = new Map();
  for (const frame of frames) groups.set(`${frame.label} ${frame.item}`, [...(groups.get(`${frame.label} ${frame.item}`) ?? []), frame]);
  return [...groups.values()];
}

/** @param {Shown[]} frames @param {RunContext} context */
function film(frames, context) {
  const [first] = frames;
  const label = `${first.label}: ${first.document}, ${count(frames.length, "frame")}`;
  const shots = frames.map((frame) =>
    h("figure", figureButton({ run: context.run, shown: frame, open: () => lookAt(context, frame) }), h("figcaption", moment(frame.seconds ?? 0))),
  );
  return h("figure", { class: "film" }, h("div", { class: "film-strip", role: "group", "aria-label": label, tabindex: "0" }, shots), h("figcaption", { dir: "auto", text: label }));
}

/** A crop beside what it was cut from. @param {any} entry @param {State} state @param {RunContext} context */
function closer(entry, state, context) {
  const { picture, source } = entry;
  if (picture === null) return null;
  const box = source ? placed(picture.box, source.box) : null;
  const open = () => lookAt(context, picture);
  const whole = source && h("figure", { class: "cut-from" }, figureButton({ run: context.run, shown: source, boxes: box ? [box] : [], open, label: `${described(source)}, with the part that was enlarged` }), caption(source));
  const part = h("figure", { class: "cut" }, figureButton({ run: context.run, shown: picture, open }), h("figcaption", `Enlarged to ${picture.width} × ${picture.height} px`));
  return h("div", { class: `act pair${picture.width > 2.4 * picture.height ? " broad" : ""}` }, whole, part);
}

/** @param {any} entry @param {State} state @param {RunContext} context */
function passages(entry, state, context) {
  const buttons = entry.passages.map((/** @type {any} */ one) =>
    h(
      "li",
      h(
        "button",
        { type: "button", class: "passage-button", on: { click: () => context.look({ item: one.item, document: one.document }) } },
        icon("report"),
        h("span", { dir: "auto", text: `${one.label ? `${one.label}: ` : ""}${one.document}, passage ${one.page}` }),
      ),
    ),
  );
  return h("ul", { class: "act passages" }, buttons);
}

/** @param {any} entry @param {State} state @param {RunContext} context */
function tool(entry, state, context) {
  const texts = (entry.texts ?? []).map((/** @type {string} */ text) => h("pre", { dir: "auto", tabindex: "0", text }));
  const items = entry.items.map((/** @type {string} */ item) => thumb({ item, kind: "page", label: "A result", open: () => context.look({ item, document: "" }) }));
  const damaged = lacking("Not everything could be opened.", entry.damaged);
  return h("div", { class: "act tool" }, texts, items.length > 0 && h("div", { class: "strip" }, items), damaged);
}

/** @param {any} entry */
function retry(entry) {
  const pause = entry.seconds ? `, after ${seconds(entry.seconds)}` : "";
  const partial = entry.partial ? [folded("Partial reply", () => h("pre", { dir: "auto", tabindex: "0", text: entry.partial }))] : [];
  return note("retry", "clock", "The call failed and was made again", `${pause ? `${pause.slice(2)}. ` : ". "}${rewriteForPage(entry.reason)}`, ...partial);
}

/** @param {any} entry @param {State} state @param {RunContext} context */
function memory(entry, state, context) {
  const { update, summary } = entry;
  const room = `${amount(update.tokens)} of ${amount(update.budget)} visual tokens`;
  const part = Math.min(1, update.tokens / Math.max(1, update.budget));
  return h(
    "div",
    { class: "act memory" },
    summary && h("p", { class: "summary", dir: "auto", text: summary }),
    h("p", { class: "small-label" }, update.kept.length ? "In memory now" : "Nothing is in memory now"),
    update.kept.length > 0 && h("div", { class: "strip" }, update.kept.map((/** @type {any} */ one) => keptThumb(one, state, context))),
    h("p", { class: "room" }, h("span", { class: "room-bar", role: "img", "aria-label": room }, h("span", { style: { width: `${part * 100}%` } })), h("span", { class: "faint", text: room })),
    update.dropped.map((/** @type {any} */ one) => h("p", { class: "faint size-2 dropped", dir: "auto", text: `No room for ${one.label} of ${one.node}: ${one.reason}` })),
    update.reports.map((/** @type {string} */ text) => h("p", { class: "faint size-2", dir: "auto", text })),
  );
}

/** @param {any} one @param {State} state @param {RunContext} context */
function keptThumb(one, state, context) {
  const shown = seenAt(state, one.node, one.label, one.item);
  const name = shown ? described(shown) : one.label;
  return thumb({
    item: one.item,
    kind: "page",
    src: shown ? fileUrl(context.run, shown.sha256) : itemUrl(one.item),
    label: `${one.label} of ${one.node}: ${name}, ${amount(one.tokens)} visual tokens`,
    caption: `${amount(one.tokens)} tokens`,
    open: () => (shown ? lookAt(context, shown) : context.look({ item: one.item, document: "" })),
  });
}

/**
 * The picture that stands for an item of a node: by its label there, or by the item alone.
 * @param {State} state
 * @param {string} node
 * @param {string} label
 * @param {string} item
 * @returns {Shown | null}
 */
export function seenAt(state, node, label, item) {
  return state.pictures.find((one) => one.node === node && one.label === label) ?? state.pictures.find((one) => one.item === item) ?? null;
}

/**
 * Something folded up, made when it is opened first.
 * @param {string} title
 * @param {() => Node} make
 */
export function folded(title, make) {
  const element = h("details", { class: "more" }, h("summary", title));
  element.addEventListener("toggle", () => element.append(make()), { once: true });
  return element;
}
