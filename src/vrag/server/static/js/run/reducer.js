/**
 * The changes of every event: a state of a run and an event give the next state. Pure; no part of the page is touched.
 *
 * A state is a value, and shares with the one before it whatever did not change: a view knows by identity
 * what to draw again. Events of kinds that are not known are passed over.
 */

/** @typedef {[number, number, number, number]} Sides x1, y1, x2, y2. */
/** @typedef {{number: number, label: string, node: string | null, item: string, document: string, page: number, seconds: number | null, box: Sides, region: Sides, width: number, height: number, visual_tokens: number, sha256: string, crop: boolean, seq: number, step: number}} Shown An `image_shown`. */
/** @typedef {{kind: string, seq: number} & Record<string, any>} Entry What happened within a step: `search`, `pictures`, `closer`, `passages`, `tool`, `memory`, `refused`, `retry`, `doubted`, `answer` or `failure`. */
/**
 * @typedef {object} Step One model call and what came of it.
 * @property {number} number From 1.
 * @property {number} first Sequence number of its first event.
 * @property {number} seq Of its last event.
 * @property {number} began Seconds since 1970.
 * @property {string} thought As far as it has come.
 * @property {boolean} thinking Whether the thought is still being written.
 * @property {boolean} answering Whether an answer is being written.
 * @property {readonly Entry[]} entries
 * @property {any} call The `model_called`, once the reply is there.
 * @property {any} usage Once the step is over.
 */
/**
 * @typedef {object} State
 * @property {number} seq Of the last event; -1 before the first.
 * @property {any} started The `run_started`.
 * @property {number} ts Of the last event.
 * @property {readonly Step[]} steps
 * @property {readonly Shown[]} pictures All that were shown, in order.
 * @property {readonly any[]} passages
 * @property {any} graph
 * @property {number} graphSeq Of the event that gave the graph; -1 without one.
 * @property {any} memory The last `memory_updated`.
 * @property {{kind: string, text: string, what: string, seq: number}} now What is going on, in words.
 * @property {number} calls Model calls so far.
 * @property {Totals} totals
 * @property {Draft | null} draft The answer as far as it is written; null once it stands or is discarded.
 * @property {readonly any[]} conflicts What other documents say otherwise than the answer.
 * @property {any} answer The `answer` event.
 * @property {any} failure The `run_failed` event.
 */
/** @typedef {{text: string, citations: readonly any[], evidence: readonly any[], step: number}} Draft `citations` and `evidence`: as in `answer`, of its beginning. */
/** @typedef {{prompt: number | null, completion: number | null, visual: number, cost: number | null, seconds: number}} Totals */

/** @type {State} */
export const EMPTY = Object.freeze({
  seq: -1,
  started: null,
  ts: 0,
  steps: [],
  pictures: [],
  passages: [],
  graph: null,
  graphSeq: -1,
  memory: null,
  now: { kind: "waiting", text: "Starting", what: "", seq: -1 },
  calls: 0,
  totals: { prompt: null, completion: null, visual: 0, cost: null, seconds: 0 },
  draft: null,
  conflicts: [],
  answer: null,
  failure: null,
});

/**
 * The state after these events.
 * @param {Iterable<any>} events
 * @returns {State}
 */
export function fold(events) {
  let state = EMPTY;
  for (const event of events) state = apply(state, event);
  return state;
}

/**
 * The state after one more event.
 * @param {State} state
 * @param {any} event
 * @returns {State}
 */
export function apply(state, event) {
  const draft = state.draft !== null && event.step > state.draft.step ? null : state.draft; // the model was called again
  const moved = { ...state, seq: event.seq, ts: event.ts, calls: Math.max(state.calls, event.step), draft };
  const change = CHANGES[event.type];
  const next = change === undefined ? moved : { ...moved, ...change(moved, event) };
  return event.step > 0 ? touched(next, event) : next;
}

/** @type {Record<string, (state: State, event: any) => Partial<State>>} What each kind of event changes. */
const CHANGES = {
  run_started: (_, event) => ({ started: event, now: now("thinking", "Thinking", "", event) }),
  thought_delta: (state, event) => ({
    ...inStep(state, event, (step) => ({ thought: step.thought + event.text, thinking: true })),
    now: state.now.kind === "thinking" ? state.now : now("thinking", "Thinking", "", event),
  }),
  thought: (state, event) => inStep(state, event, () => ({ thought: event.text, thinking: false })),
  answer_delta: (state, event) => ({
    ...inStep(state, event, () => ({ thinking: false, answering: true })),
    draft: { text: (state.draft?.text ?? "") + event.text, citations: state.draft?.citations ?? [], evidence: state.draft?.evidence ?? [], step: event.step },
    now: state.now.kind === "answering" ? state.now : now("answering", "Writing the answer", "", event),
  }),
  answer_cited: (state, event) => (state.draft ? { draft: { ...state.draft, citations: event.citations, evidence: event.evidence } } : {}),
  model_called: (state, event) => inStep(state, event, () => ({ call: event, thinking: false })),
  model_retried: (state, event) => ({
    ...added(state, event, entry("retry", event, { reason: event.reason, seconds: event.seconds, partial: event.partial }), {
      thought: "",
      thinking: false,
      answering: false,
    }),
    draft: null,
    now: now("retrying", "The call failed; trying again", "", event),
  }),
  context_shortened: (state, event) => ({
    ...added(state, event, entry("retry", event, { reason: `Too long for the model; asked again without ${event.dropped.join(", ")}.`, seconds: 0, partial: "" }), {
      thought: "",
      thinking: false,
      answering: false,
    }),
    draft: null,
    now: now("retrying", "Too long for the model; asking again", "", event),
  }),
  search_requested: (state, event) => ({
    ...added(state, event, entry("search", event, { query: event.query, continued: event.continued ?? false, node: event.node ?? null, waiting: true, hits: null, damaged: [] })),
    now: now("searching", event.continued ? "Going through the hits" : "Searching", event.query, event),
  }),
  search_returned: (state, event) => withLast(state, event, "search", { waiting: false, hits: event.hits, damaged: event.damaged ?? [] }),
  crop_requested: (state, event) => ({
    ...added(state, event, entry("closer", event, { request: event, node: event.node ?? null, picture: null, source: null })),
    now: now("looking", "Looking closer", "", event),
  }),
  image_shown: (state, event) => ({
    ...(event.crop ? closer(state, event) : pictures(state, event)),
    pictures: [...state.pictures, event],
    now: now("looking", event.crop ? "Looking closer at" : "Looking at", where(event), event),
  }),
  passage_shown: (state, event) => ({
    ...grouped(state, event, "passages", "passages"),
    passages: [...state.passages, event],
    now: now("reading", "Reading", `${event.document}, passage ${event.page}`, event),
  }),
  action_requested: (state, event) => ({
    ...added(state, event, entry("tool", event, { name: event.name, text: event.text, node: event.node ?? null, items: [], texts: null, damaged: [] })),
    now: now("tool", "Using", event.name, event),
  }),
  action_returned: (state, event) =>
    withLast(state, event, "tool", { items: event.items, texts: event.texts, damaged: event.damaged ?? [] }),
  graph_changed: (_, event) => ({ graph: event.graph, graphSeq: event.seq }),
  memory_updated: (state, event) => ({
    ...added(state, event, entry("memory", event, { update: event, summary: nodeOf(state, event.node)?.summary ?? "" })),
    memory: event,
    now: now("remembering", "Remembering what counts", "", event),
  }),
  invalid_action: (state, event) => ({
    ...ended(state, event, entry("refused", event, { reason: event.reason })),
    draft: null,
    now: now("refused", "The reply was refused; asking again", "", event),
  }),
  usage: (state, event) => ({
    ...inStep(state, event, () => ({ usage: event, thinking: false })),
    totals: plus(state.totals, event),
  }),
  answer_doubted: (state, event) => ({
    ...ended(state, event, entry("doubted", event, { text: event.text, claims: event.claims, conflicts: event.conflicts ?? [] })),
    draft: null,
    now: now("doubted", event.conflicts?.length > 0 ? "Documents that were shown disagree; asking again" : "The answer is in doubt; asking again", "", event),
  }),
  conflict_found: (state, event) => ({ conflicts: [...state.conflicts, event.conflict] }),
  answer: (state, event) => ({
    ...ended(state, event, entry("answer", event, { text: event.text, reason: event.stop_reason })),
    draft: null,
    answer: event,
    now: now("ended", "Finished", "", event),
  }),
  run_failed: (state, event) => ({
    ...ended(state, event, entry("failure", event, { message: event.message })),
    draft: null,
    failure: event,
    now: now("ended", "Failed", "", event),
  }),
};

/**
 * The node of the graph of this id.
 * @param {State} state
 * @param {string | null} id
 */
export function nodeOf(state, id) {
  return state.graph?.nodes.find((/** @type {any} */ node) => node.id === id) ?? null;
}

/** @param {string} kind @param {string} text @param {string} what @param {any} event */
function now(kind, text, what, event) {
  return { kind, text, what, seq: event.seq };
}

/** @param {string} kind @param {any} event @param {object} values @returns {Entry} */
function entry(kind, event, values) {
  return { kind, seq: event.seq, ...values };
}

/** @param {any} shown */
function where(shown) {
  return shown.seconds === null ? `${shown.document}, page ${shown.page}` : shown.document;
}

/** @param {any} event @returns {Step} */
function begun(event) {
  return { number: event.step, first: event.seq, seq: event.seq, began: event.ts, thought: "", thinking: false, answering: false, entries: [], call: null, usage: null };
}

/** @param {State} state @param {any} event @param {(step: Step) => Partial<Step>} change @returns {Partial<State>} */
function inStep(state, event, change) {
  if (!(event.step > 0)) return {};
  const last = state.steps.at(-1);
  const goesOn = last !== undefined && last.number === event.step;
  const current = goesOn ? last : begun(event);
  const before = goesOn ? state.steps.slice(0, -1) : state.steps;
  return { steps: [...before, { ...current, ...change(current) }] };
}

/** Every event of a step moves its end. @param {State} state @param {any} event @returns {State} */
function touched(state, event) {
  if (state.steps.at(-1)?.number === event.step && state.steps.at(-1)?.seq === event.seq) return state;
  return { ...state, ...inStep(state, event, () => ({ seq: event.seq })) };
}

/** @param {State} state @param {any} event @param {Entry} one @param {Partial<Step>} [more] */
function added(state, event, one, more = {}) {
  return inStep(state, event, (step) => ({ ...more, entries: [...step.entries, one] }));
}

/** The end of a step: no search of it is waited for any more. @param {State} state @param {any} event @param {Entry} one */
function ended(state, event, one) {
  return inStep(state, event, (step) => ({
    thinking: false,
    entries: [...step.entries.map((entry) => (entry.waiting ? { ...entry, waiting: false } : entry)), one],
  }));
}

/** Changes the last entry of a kind in this step. @param {State} state @param {any} event @param {string} kind @param {object} values */
function withLast(state, event, kind, values) {
  return inStep(state, event, (step) => {
    const index = step.entries.findLastIndex((one) => one.kind === kind);
    if (index < 0) return {};
    return { entries: step.entries.with(index, { ...step.entries[index], ...values }) };
  });
}

/** @param {State} state @param {any} event @param {string} kind @param {string} field */
function grouped(state, event, kind, field) {
  return inStep(state, event, (step) => {
    const last = step.entries.at(-1);
    if (last?.kind !== kind) return { entries: [...step.entries, entry(kind, event, { [field]: [event] })] };
    return { entries: step.entries.with(-1, { ...last, [field]: [...last[field], event] }) };
  });
}

/** @param {State} state @param {any} event */
function pictures(state, event) {
  return grouped(state, event, "pictures", "pictures");
}

/** A crop answers the request before it; one without is told by itself. @param {State} state @param {any} event */
function closer(state, event) {
  return inStep(state, event, (step) => {
    const index = step.entries.findLastIndex((one) => one.kind === "closer" && one.picture === null);
    const asked = index < 0 ? null : step.entries[index];
    const source = sourceOf(state.pictures, event, asked?.request.image ?? null);
    if (asked) return { entries: step.entries.with(index, { ...asked, picture: event, source }) };
    return { entries: [...step.entries, entry("closer", event, { request: null, node: event.node ?? null, picture: event, source })] };
  });
}

/**
 * The picture that a crop was cut from: of that number, or the last before it that holds the part.
 * @param {readonly any[]} shown
 * @param {any} crop
 * @param {number | null} number
 */
export function sourceOf(shown, crop, number = null) {
  const earlier = shown.filter((one) => one.item === crop.item && one.seq < crop.seq);
  return (
    earlier.findLast((one) => number !== null && one.number === number) ??
    earlier.findLast((one) => holds(one.box, crop.box)) ??
    earlier.at(-1) ??
    null
  );
}

/** @param {Sides} outer @param {Sides} inner */
function holds(outer, inner) {
  const slack = 1e-6;
  return outer[0] <= inner[0] + slack && outer[1] <= inner[1] + slack && outer[2] >= inner[2] - slack && outer[3] >= inner[3] - slack;
}

/** @param {Totals} totals @param {any} usage @returns {Totals} */
function plus(totals, usage) {
  return {
    prompt: sum(totals.prompt, usage.prompt_tokens),
    completion: sum(totals.completion, usage.completion_tokens),
    visual: totals.visual + (usage.visual_tokens ?? 0),
    cost: sum(totals.cost, usage.cost),
    seconds: totals.seconds + (usage.seconds ?? 0),
  };
}

/** @param {number | null} a @param {number | null | undefined} b */
function sum(a, b) {
  return b === null || b === undefined ? a : (a ?? 0) + b;
}
