/** The panel of a node of the graph: its question, its results and what is remembered of them, at the moment shown. */

import { h, iconButton, replace } from "../dom.js";
import { amount, moment } from "../format.js";
import { lookAt, seenAt } from "./entries.js";
import { described, fileUrl, itemUrl, thumb } from "./figures.js";
import { nodeOf } from "./reducer.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./entries.js").RunContext} RunContext */

/** Kinds of nodes, for people. @type {Record<string, string>} */
const KINDS = { root: "Question", search: "Search", crop: "Closer look", tool: "Tool", answer: "Answer" };

/** The panel of one node. */
export class NodePanel {
  #context;
  #id = "";
  /** @type {unknown[]} What it was drawn from. */
  #from = [];

  /** @param {RunContext} context @param {() => void} close @param {(step: number) => void} goTo */
  constructor(context, close, goTo) {
    this.#context = context;
    this.goTo = goTo;
    this.title = h("h3", { id: `node-title-${context.run}`, tabindex: "-1", dir: "auto" });
    this.kind = h("span", { class: "kind-chip" });
    this.body = h("div", { class: "node-body" });
    this.element = h(
      "section",
      { class: "node-panel card", "aria-labelledby": this.title.id, hidden: true },
      h("header", this.kind, this.title, iconButton("close", "Close the node", { on: { click: close } })),
      this.body,
    );
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      close();
    });
  }

  /** Id of the node that is shown; empty when none is. */
  get id() {
    return this.#id;
  }

  /** @param {string} id @param {State} state */
  open(id, state) {
    this.#id = id;
    this.#from = [];
    this.update(state);
    this.element.hidden = false;
    this.title.focus({ preventScroll: true });
  }

  close() {
    this.#id = "";
    this.element.hidden = true;
  }

  /** @param {State} state */
  update(state) {
    if (this.#id === "") return;
    const node = nodeOf(state, this.#id);
    const from = [node, state.memory, state.pictures.length, state.graph];
    if (from.every((part, index) => part === this.#from[index])) return;
    this.#from = from;
    if (node === null) return this.close();
    this.element.dataset.kind = node.kind;
    this.kind.textContent = node.tool || KINDS[node.kind] || node.kind;
    this.title.textContent = node.id;
    replace(
      this.body,
      node.query && h("p", { class: "node-asked", dir: "auto", text: node.query }),
      summaryOf(node),
      this.#related(node, state),
      this.#results(node, state),
      this.#memory(node, state),
    );
  }

  /** @param {any} node @param {State} state */
  #related(node, state) {
    const children = state.graph.nodes.filter((/** @type {any} */ one) => one.parents.includes(node.id)).map((/** @type {any} */ one) => one.id);
    const step = state.steps.find((one) => one.entries.some((entry) => entry.node === node.id && entry.kind !== "pictures"))?.number;
    return h(
      "p",
      { class: "node-related" },
      this.#links("From", node.parents),
      this.#links("Led to", children),
      step && h("button", { type: "button", class: "link size-2", text: `Step ${step}`, on: { click: () => this.goTo(step) } }),
    );
  }

  /** @param {string} name @param {string[]} ids */
  #links(name, ids) {
    if (ids.length === 0) return null;
    const buttons = ids.map((id) => h("button", { type: "button", class: "chip node-link", dir: "auto", text: id, on: { click: () => this.#context.node(id) } }));
    return h("span", { class: "row" }, h("span", { class: "faint size-2", text: name }), buttons);
  }

  /** @param {any} node @param {State} state */
  #results(node, state) {
    const shown = state.pictures.filter((one) => one.node === node.id);
    const passages = state.passages.filter((one) => one.node === node.id);
    if (node.memory.length === 0 && shown.length === 0 && passages.length === 0) return null;
    const rows = node.memory.length > 0 ? node.memory.map((/** @type {any} */ memo) => this.#memo(memo, node, state)) : each(shown).map((one) => this.#fresh(one));
    const texts = passages.map((one) =>
      h("li", { class: "memo" }, thumb({ item: one.item, kind: "passage", label: `${one.label}: ${one.document}, passage ${one.page}`, open: () => this.#context.look({ item: one.item, document: one.document }) }), memoWords(one.label || "Text", `${one.document}, passage ${one.page}`, "lives on in the summary")),
    );
    return h("div", h("h4", { class: "small-label", text: node.memory.length > 0 ? "What it found, and what that is worth" : "What it found" }), h("ul", { class: "memos" }, rows, texts));
  }

  /** @param {any} memo @param {any} node @param {State} state */
  #memo(memo, node, state) {
    const shown = seenAt(state, node.id, memo.label, memo.item);
    const kept = state.memory?.kept.find((/** @type {any} */ one) => one.item === memo.item);
    const dropped = state.memory?.dropped.find((/** @type {any} */ one) => one.item === memo.item && one.node === node.id);
    const at = memo.seconds.length > 0 ? ` at ${memo.seconds.slice(0, 4).map(moment).join(", ")}` : "";
    return h(
      "li",
      { class: `memo${memo.useful ? "" : " off"}` },
      this.#thumb(memo, shown),
      memoWords(`${memo.label}${at}`, shown ? described(shown) : "", worth(memo, kept, dropped), memo.useful && memo.reviewed ? stars(memo.priority) : null),
    );
  }

  /** @param {any} memo @param {import("./reducer.js").Shown | null} shown */
  #thumb(memo, shown) {
    const open = () => (shown ? lookAt(this.#context, shown) : this.#context.look({ item: memo.item, document: "" }));
    return thumb({ item: memo.item, kind: "page", label: shown ? described(shown) : memo.label, src: shown ? fileUrl(this.#context.run, shown.sha256) : itemUrl(memo.item), open });
  }

  /** @param {import("./reducer.js").Shown} shown */
  #fresh(shown) {
    return h("li", { class: "memo" }, this.#thumb({ item: shown.item, label: shown.label }, shown), memoWords(shown.label, described(shown), `${amount(shown.visual_tokens)} visual tokens, not reviewed yet`));
  }

  /** @param {any} node @param {State} state */
  #memory(node, state) {
    const reports = state.memory?.node === node.id ? state.memory.reports : [];
    return reports.length > 0 && h("ul", { class: "faint size-2" }, reports.map((/** @type {string} */ text) => h("li", { dir: "auto", text })));
  }
}

/** @param {any} node */
function summaryOf(node) {
  if (node.kind === "root" || node.kind === "answer") return null;
  if (node.summary === null) return h("p", { class: "faint", text: "Its results are being read." });
  return h("p", { class: "node-text", dir: "auto", text: node.summary || "The answer was given from its results, without a summary." });
}

/** @param {any} memo @param {any} kept @param {any} dropped */
function worth(memo, kept, dropped) {
  if (!memo.useful) return "of no use";
  const held = kept && `in memory: ${amount(kept.tokens)} tokens, energy ${Number(kept.energy.toPrecision(3))}`;
  const lost = dropped && `${kept ? "" : "not in memory: "}${dropped.reason}`;
  return [held, lost].filter(Boolean).join("; ") || (memo.reviewed ? "" : "not reviewed");
}

/** @param {number} priority */
function stars(priority) {
  const full = Math.min(5, Math.max(0, priority));
  return h("span", { class: "stars", role: "img", "aria-label": `priority ${full} of 5`, title: `priority ${full} of 5`, text: "●".repeat(full) + "○".repeat(5 - full) });
}

/** @param {string} label @param {string} what @param {string} fact @param {Node | null} [more] */
function memoWords(label, what, fact, more = null) {
  return h("span", { class: "memo-words" }, h("span", h("strong", label), " ", more), h("span", { class: "soft", dir: "auto", text: what }), fact && h("span", { class: "faint", text: fact }));
}

/** One picture of each item. @param {import("./reducer.js").Shown[]} shown */
function each(shown) {
  return shown.filter((one, index) => shown.findIndex((other) => other.label === one.label && other.item === one.item) === index);
}
