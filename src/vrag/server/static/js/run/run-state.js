/** A run as people read it: its events in order, and the state at any of them. */

import { EMPTY, apply } from "./reducer.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {import("./reducer.js").Step} Step */
/** @typedef {import("./reducer.js").Entry} Entry */

/** Events between two states that are kept whole. */
const STRIDE = 64;

/** The events of one run in order, and its state at any of them. */
export class RunState {
  /** @type {any[]} */
  #events = [];
  /** @type {State[]} State before the event 0, STRIDE, 2 × STRIDE … */
  #kept = [EMPTY];
  /** @type {State} */
  #last = EMPTY;

  /** The state after the last event. */
  get last() {
    return this.#last;
  }

  /**
   * Takes an event; one that is not newer than the last is passed over.
   * @param {any} event
   * @returns {boolean} Whether it was new.
   */
  add(event) {
    if (!Number.isInteger(event?.seq) || event.seq <= this.#last.seq) return false;
    this.#events.push(event);
    this.#last = apply(this.#last, event);
    if (this.#events.length % STRIDE === 0) this.#kept.push(this.#last);
    return true;
  }

  /** Says where the run stands in the queue, before its first event. @param {string} text */
  wait(text) {
    if (this.#last.seq < 0) this.#last = { ...EMPTY, now: { kind: "waiting", text, what: "", seq: -1 } };
  }

  /**
   * The state after the event of this sequence number, or after the last one before it.
   * @param {number} seq
   * @returns {State}
   */
  at(seq) {
    if (seq >= this.#last.seq) return this.#last;
    const count = this.#countTo(seq);
    let state = this.#kept[Math.floor(count / STRIDE)];
    for (const event of this.#events.slice(Math.floor(count / STRIDE) * STRIDE, count)) state = apply(state, event);
    return state;
  }

  /** The steps so far: number, what it was, and its last event. What follows a step belongs to it. */
  get moments() {
    return this.#last.steps.map((step) => ({ number: step.number, seq: step.seq, first: step.first, ...titleOf(step) }));
  }

  /** @param {number} seq How many events have at most this number. */
  #countTo(seq) {
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#events[middle].seq <= seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * The title of a step, in a word, and its kind: `search`, `crop`, `tool`, `memory`, `answer`, `fault` or `open`.
 * @param {Step} step
 * @returns {{kind: string, title: string}}
 */
export function titleOf(step) {
  for (const one of step.entries) {
    const title = TITLES[one.kind]?.(one);
    if (title) return title;
  }
  if (step.answering && step.usage === null) return { kind: "answer", title: "Answer" };
  if (step.thinking || step.usage === null) return { kind: "open", title: step.call ? "Working" : "Thinking" };
  return { kind: "open", title: "No action" };
}

/** @type {Record<string, (entry: Entry) => {kind: string, title: string} | null>} */
const TITLES = {
  search: () => ({ kind: "search", title: "Search" }),
  closer: () => ({ kind: "crop", title: "Closer look" }),
  tool: (one) => ({ kind: "tool", title: one.name }),
  memory: () => ({ kind: "memory", title: "Remember" }),
  refused: () => ({ kind: "fault", title: "Refused" }),
  doubted: ({ conflicts }) => ({ kind: "fault", title: conflicts.length > 0 ? "Sources disagree" : "Answer in doubt" }),
  answer: ({ text, reason }) => (text !== null ? { kind: "answer", title: "Answer" } : reason === "abstained" ? { kind: "open", title: "No answer" } : null),
  failure: () => ({ kind: "fault", title: "Failed" }),
};

/**
 * The reason the run ended; null while it goes on.
 * @param {State} state
 * @returns {string | null}
 */
export function stopReason(state) {
  return (state.answer ?? state.failure)?.stop_reason ?? null;
}

/**
 * The state of a run that has ended, as far as its entry in a list or its details tell it.
 * @param {any} run The answer of GET /runs/{id}, or one of GET /runs; the latter knows no evidence.
 * @returns {State}
 */
export function endedState(run) {
  const { evidence = [], looked_at: besides = [], citations = [], claims = [], conflicts = [], unsupported = [], reading = null, withdrawn = null, failure = null, choices = [], absence = "" } = run;
  const settings = { agent: run.agent, policy: run.model, environment: { collection: run.collection, documents: run.documents ?? null } };
  const known = run.evidence !== undefined;
  const end = { stop_reason: run.stop_reason };
  return {
    ...EMPTY,
    started: { question: run.question, ts: run.started, session: run.session, settings, history: run.history ?? [], attached: run.attached ?? [], notices: run.notices ?? [] },
    ts: run.started + run.seconds,
    calls: run.steps,
    totals: { prompt: run.prompt_tokens, completion: run.completion_tokens, visual: run.visual_tokens, cost: run.cost, seconds: run.seconds },
    conflicts,
    answer: run.stop_reason && failure === null ? { ...end, text: run.answer, evidence: [...evidence, ...besides], cited: known ? evidence.length : null, citations, claims, unsupported, reading, withdrawn, choices, absence } : null,
    failure: failure === null ? null : { ...end, message: failure },
  };
}

/** Replies that were refused, of a model that does not keep to the format: half of them and three at least; else 0. @param {State} state */
export function refusals(state) {
  const refused = state.steps.filter((step) => step.entries.some((one) => one.kind === "refused")).length;
  return refused >= 3 && refused * 2 >= state.steps.length ? refused : 0;
}
