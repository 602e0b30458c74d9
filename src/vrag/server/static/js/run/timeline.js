/** The steps of a run, one below the other: what was thought, done and shown. Redraws what changed and nothing else. */

import { h, icon, replace } from "../dom.js";
import { amount, money, seconds } from "../format.js";
import { rewriteForPage } from "../messages.js";
import { entryElement, folded, markShown } from "./entries.js";
import { plainText } from "./prose.js";
import { titleOf } from "./run-state.js";
import { WITHOUT_MODEL } from "./wording.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./reducer.js").Step} Step */
/** @typedef {import("./entries.js").RunContext} RunContext */

/** Signs of the kinds of steps. @type {Record<string, string>} */
const SIGNS = { search: "search", crop: "crop", tool: "sliders", memory: "pages", answer: "answer", fault: "warn", open: "dot" };
/** Characters from which a thought that has ended is folded up. */
const LONG = 700;

/** The list of steps. */
export class Timeline {
  /** @type {Map<number, StepView>} */
  #views = new Map();
  #context;

  /** @param {RunContext} context */
  constructor(context) {
    this.#context = context;
    this.element = h("ol", { class: "steps", "aria-label": "Steps" });
  }

  /**
   * Shows the steps of a state.
   * @param {State} state
   * @param {boolean} running
   */
  update(state, running) {
    const numbers = new Set(state.steps.map((step) => step.number));
    for (const [number, view] of this.#views) {
      if (numbers.has(number)) continue;
      view.element.remove();
      this.#views.delete(number);
    }
    for (const step of state.steps) this.#view(step.number).update(step, state, running && step === state.steps.at(-1));
    if (running) for (const [number, view] of this.#views) if (!view.byHand) view.open = number === state.steps.at(-1)?.number;
  }

  /**
   * Opens some steps and closes the others.
   * @param {(number: number) => boolean} open
   */
  unfold(open) {
    for (const [number, view] of this.#views) [view.open, view.byHand] = [open(number), false];
  }

  /** True if every step is open. */
  get unfolded() {
    return [...this.#views.values()].every((view) => view.open);
  }

  /** @param {number} number */
  stepElement(number) {
    return this.#views.get(number)?.element ?? null;
  }

  /** @param {number} number */
  #view(number) {
    let view = this.#views.get(number);
    if (view === undefined) {
      view = new StepView(number, this.#context);
      this.#views.set(number, view);
      this.element.append(view.element);
    }
    return view;
  }
}

/** One step. */
class StepView {
  /** @type {Step | null} */
  #step = null;
  /** @type {Map<object, {element: HTMLElement | null}>} Of every entry, as it was drawn. */
  #drawn = new Map();
  #live = false;
  #context;
  /** True if somebody opened or closed it: then it stays so while the run goes on. */
  byHand = false;

  /** @param {number} number @param {RunContext} context */
  constructor(number, context) {
    this.#context = context;
    const id = `step-${number}-${context.run}`;
    this.sign = h("span", { class: "step-sign" });
    this.kind = h("span", { class: "step-kind" });
    this.outline = h("span", { class: "step-outline", dir: "auto" });
    this.cost = h("span", { class: "step-cost" });
    this.head = h("button", { type: "button", class: "step-head", "aria-expanded": "true", "aria-controls": id, on: { click: () => ([this.open, this.byHand] = [!this.open, true]) } }, h("span", { class: "hidden-text", text: `Step ${number}: ` }), this.kind, this.outline, this.cost, icon("down"));
    this.thought = h("p", { class: "thought", dir: "auto" });
    this.whole = h("button", { type: "button", class: "link size-2", hidden: true, text: "Show all", on: { click: () => this.#unfoldThought() } });
    this.entries = h("div", { class: "step-entries" });
    this.foot = h("div", { class: "step-foot" });
    this.content = h("div", { class: "step-content", id }, this.thought, this.whole, this.entries, this.foot);
    this.element = h("li", { class: "step", dataset: { step: String(number) } }, this.sign, h("h3", this.head), this.content);
  }

  get open() {
    return !this.content.hidden;
  }

  set open(value) {
    this.content.hidden = !value;
    this.head.setAttribute("aria-expanded", String(value));
    this.element.classList.toggle("closed", !value);
  }

  /** @param {Step} step @param {State} state @param {boolean} live Whether it is under way. */
  update(step, state, live) {
    if (step === this.#step && live === this.#live) return;
    const before = this.#step;
    this.#step = step;
    this.#live = live;
    this.element.classList.toggle("live", live);
    this.#updateHead(step, before, live);
    this.#updateThought(step, before);
    if (step.entries !== before?.entries) this.#updateEntries(step, state);
    if (step.call !== before?.call || step.usage !== before?.usage) this.#updateFoot(step, state);
  }

  /** @param {Step} step @param {Step | null} before @param {boolean} live */
  #updateHead(step, before, live) {
    const { kind, title } = titleOf(step);
    if (this.element.dataset.kind !== kind || before === null) {
      this.element.dataset.kind = kind;
      replace(this.sign, icon(SIGNS[kind]));
    }
    this.kind.textContent = !live && step.usage === null && kind === "open" ? "Cut off" : title;
    this.outline.textContent = outlineOf(step);
    this.cost.textContent = step.usage ? seconds(step.usage.seconds) : "";
  }

  /** @param {Step} step @param {Step | null} before */
  #updateThought(step, before) {
    if (before && step.thought === before.thought && step.thinking === before.thinking) return;
    const text = step.thought.trim();
    const [node] = this.thought.childNodes;
    if (node instanceof Text && text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
    else this.thought.textContent = text;
    this.thought.hidden = text === "";
    this.thought.classList.toggle("writing", step.thinking);
    const long = !step.thinking && text.length > LONG && this.whole.dataset.pressed === undefined;
    this.thought.classList.toggle("folded", long);
    this.whole.hidden = !long;
  }

  #unfoldThought() {
    this.whole.dataset.pressed = "";
    this.whole.hidden = true;
    this.thought.classList.remove("folded");
  }

  /** @param {Step} step @param {State} state */
  #updateEntries(step, state) {
    const drawn = new Map(step.entries.map((entry) => [entry, this.#drawn.get(entry) ?? { element: entryElement(entry, state, this.#context) }]));
    this.#drawn = drawn;
    const elements = [...drawn.values()].flatMap(({ element }) => (element ? [element] : []));
    const current = [...this.entries.children];
    elements.forEach((element, index) => current[index] !== element && this.entries.insertBefore(element, this.entries.children[index] ?? null));
    for (const old of current) if (!elements.includes(/** @type {HTMLElement} */ (old))) old.remove();
    markShown(this.entries, step.entries);
  }

  /** @param {Step} step @param {State} state */
  #updateFoot(step, state) {
    const isPaid = state.started?.settings.policy !== WITHOUT_MODEL;
    const repairs = step.call?.repairs ?? [];
    const named = (step.call?.flags ?? []).filter((/** @type {string} */ flag) => flag !== "repaired" || repairs.length === 0);
    const faults = [...named.map((/** @type {string} */ flag) => flag.replaceAll("_", " ")), ...(repairs.length > 0 ? [`repaired: ${repairs.join("; ")}`] : []), ...(ENDS[step.call?.finish] ?? [])];
    replace(
      this.foot,
      faults.length > 0 && h("p", { class: "faint size-2", text: `Remarks on the reply: ${faults.join(", ")}.` }),
      h("div", { class: "step-figures" }, step.call && folded("Raw reply", () => reply(step.call)), step.usage && isPaid && h("span", { class: "faint", text: costOf(step.usage) })),
    );
  }
}

/** @type {Record<string, string[]>} What is said of the end of a reply. */
const ENDS = { length: ["cut off at its token limit"], unsaid: ["the server did not say why it ended"] };

/** A step in a line. @param {Step} step */
function outlineOf(step) {
  const refused = step.entries.some((one) => one.kind === "refused");
  for (const one of step.entries) {
    const outline = refused && one.picture === null ? "" : OUTLINES[one.kind]?.(one);
    if (outline) return outline;
  }
  return "";
}

/** @type {Record<string, (entry: any) => string>} */
const OUTLINES = {
  search: (one) => `${one.continued ? "The next hits for " : ""}“${one.query}”`,
  closer: (one) => (one.picture ? `${one.picture.document}, page ${one.picture.page}` : one.request.label || (one.request.image ? `Image ${one.request.image}` : "the last picture")),
  tool: (one) => one.text,
  memory: (one) => one.summary || one.update.node,
  refused: (one) => `not carried out: ${one.reason}`,
  doubted: (one) => plainText(one.text),
  answer: (one) => plainText(one.text ?? ""),
  failure: (one) => rewriteForPage(one.message),
};

/** The model's own words; what it wrote after its action was dropped. @param {any} call */
function reply(call) {
  const [used, dropped] = [call.reply.slice(0, call.executed), call.reply.slice(call.executed)];
  return h("pre", { dir: "auto", tabindex: "0" }, used, dropped && h("del", { title: "Written after the action, and dropped", text: dropped }));
}

/** @param {any} usage */
function costOf(usage) {
  const known = usage.prompt_tokens !== null || usage.completion_tokens !== null;
  const parts = [
    known && `${amount(usage.prompt_tokens)} tokens in, ${amount(usage.completion_tokens)} out`,
    usage.visual_tokens > 0 && `${amount(usage.visual_tokens)} visual`,
    usage.cost !== null && `cost ${money(usage.cost)}`,
  ];
  return parts.filter(Boolean).join(" · ");
}
