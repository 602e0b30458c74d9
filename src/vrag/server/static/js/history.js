/** Past runs: grouped by conversation and day, newest first, with the outcome of each. */

import { h, icon, iconButton, keepFocus, showList } from "./dom.js";
import { clock, count } from "./format.js";
import { runHash } from "./router.js";
import { PLACES, WITHOUT_MODEL, NOTHING } from "./run/wording.js";

/**
 * @typedef {{id: string, session: string, question: string, state: string, stop_reason: string | null, started: number,
 *   answer: string | null, kind?: string, agent: string, collection: string | null, documents?: string[] | null, model: string, owner: string, via: string,
 *   title: string, pinned: boolean, shared: boolean}} Run `title`, `pinned` and `shared` are those of its conversation.
 * @typedef {{session: string, title: string, runs: Run[], latest: number}} Conversation Runs in the order asked.
 * @typedef {{asker: "people" | "programs", text: string, agent: string, collection: string, owner: string | null}} View
 *   The runs that a list shows; an empty name and a null owner stand for all.
 */

const PROGRAMS = new Set(["api", "openai", "mcp"]);

/** Whether a run is one of a view, except for its text. @param {Run} run @param {View} view */
export function isOf(run, { asker, agent, collection, owner }) {
  return (
    PROGRAMS.has(run.via) === (asker === "programs") &&
    (!agent || run.agent === agent) &&
    (!collection || run.collection === collection) &&
    (owner === null || run.owner === owner)
  );
}

/** Whether a run waits or goes on. @param {{state: string}} run */
export const isUnderWay = ({ state }) => state === "waiting" || state === "running";

/**
 * Conversations of some runs, the one asked in last first.
 * @param {Run[]} runs In any order.
 * @returns {Conversation[]}
 */
export function conversations(runs) {
  return [...grouped(runs, (run) => run.session || run.id)]
    .map(([session, turns]) => {
      const ordered = turns.sort((a, b) => a.started - b.started);
      return { session, title: ordered[0].title || ordered[0].question, runs: ordered, latest: ordered[ordered.length - 1].started };
    })
    .sort((a, b) => b.latest - a.latest);
}

/**
 * Conversations under the names of their days, the pinned ones before.
 * @param {Conversation[]} talks Newest first.
 * @param {Date} now
 * @returns {[string, Conversation[]][]}
 */
export function byDay(talks, now) {
  const name = (/** @type {Conversation} */ talk) => (talk.runs[0].pinned ? PINNED : dayName(new Date(talk.latest * 1000), now));
  const days = [...grouped(talks, name)];
  return [...days.filter(([day]) => day === PINNED), ...days.filter(([day]) => day !== PINNED)];
}

const PINNED = "Pinned";

/**
 * @template T
 * @param {T[]} list
 * @param {(one: T) => string} key
 * @returns {Map<string, T[]>}
 */
function grouped(list, key) {
  const groups = new Map();
  for (const one of list) {
    const name = key(one);
    const group = groups.get(name);
    if (group) group.push(one);
    else groups.set(name, [one]);
  }
  return groups;
}

/**
 * @param {Date} then
 * @param {Date} now
 * @returns {string}
 */
export function dayName(then, now) {
  const midnight = (/** @type {Date} */ at) => new Date(at.getFullYear(), at.getMonth(), at.getDate()).getTime();
  const days = Math.round((midnight(now) - midnight(then)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return then.toLocaleDateString("en", { weekday: "long" });
  const year = then.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return then.toLocaleDateString("en", { day: "numeric", month: "long", year });
}

/**
 * Conversations of which title, questions or answers have all these words.
 * @param {Conversation[]} talks
 * @param {string} words
 * @returns {Conversation[]}
 */
export function matching(talks, words) {
  const wanted = words.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return talks;
  const text = (/** @type {Conversation} */ talk) => [talk.title, ...talk.runs.map((run) => `${run.question} ${run.answer ?? ""}`)].join(" ").toLocaleLowerCase();
  return talks.filter((talk) => {
    const content = text(talk);
    return wanted.every((word) => content.includes(word));
  });
}

/** @type {Record<string, [string, string]>} */
const ENDS = {
  cancelled: ["stopped", "Stopped"],
  abstained: ["abstained", "No answer in the documents"],
  out_of_steps: ["abstained", "Out of steps"],
  out_of_tokens: ["abstained", "Out of tokens"],
  out_of_budget: ["abstained", "Budget spent"],
  model_error: ["failed", "The model failed"],
  search_error: ["failed", "The search failed"],
  fault: ["failed", "Internal error"],
};

/**
 * The outcome of a run: a CSS class and a label; no class for an answered run.
 * @param {Run} run
 * @returns {[string, string]}
 */
export function outcome(run) {
  if (run.state === "waiting") return ["waiting", "Waiting"];
  if (run.state === "running") return ["running", "Running"];
  if (run.state === "interrupted") return ["failed", "Interrupted"];
  if (run.stop_reason === "abstained" && run.model === WITHOUT_MODEL) return ["abstained", run.kind === "places" ? PLACES.name : NOTHING.name];
  return ENDS[run.stop_reason ?? ""] ?? ["", "Answered"];
}

/**
 * What tells runs apart besides their words: time, agent, model, and where there are several, user and collection.
 * @param {Run} run
 * @param {{agents: {name: string, title: string}[], collections: unknown[]}} offer
 * @param {string} user The one who looks.
 * @returns {string[]}
 */
export function runFacts(run, { agents, collections }, user) {
  const agent = agents.find((one) => one.name === run.agent)?.title.split(":")[0] ?? run.agent;
  const facts = [
    clock(run.started),
    run.owner && run.owner !== user && run.owner,
    run.shared && "shared",
    agent,
    run.model === WITHOUT_MODEL ? "without a model" : run.model.replace(/^(chat|local):/, ""),
    collections.length > 1 && run.collection,
    { openai: "OpenAI client", mcp: "MCP client" }[run.via],
  ];
  return /** @type {string[]} */ (facts.filter(Boolean));
}

/**
 * @typedef {object} Shown
 * @property {Run[]} runs
 * @property {string} words What is searched for; empty for all.
 * @property {boolean} narrow Whether some are left out by other filters.
 * @property {string | null} current Id of the run that is open.
 * @property {boolean} more Whether older ones can be loaded.
 * @property {any} offer What the server offers.
 * @property {string} user The one who looks.
 */

/**
 * Shows the list of past runs. Entries that show the same as before stay, so that no click is lost.
 * @param {HTMLElement} list
 * @param {Shown} shown
 * @param {{loadMore: () => void, actions: (talk: Conversation, button: HTMLElement) => void}} calls `actions` shows what can be done.
 */
export function showHistory(list, shown, { loadMore, actions }) {
  const days = byDay(matching(conversations(shown.runs), shown.words), new Date());
  const older = () => h("button", { type: "button", id: "older", class: "quiet", text: "Older questions", on: { click: loadMore } });
  /** @type {[string, () => HTMLElement][]} */
  const parts = days.map(([day]) => [day, () => h("section", { class: "day" }, h("h2", { text: day }), h("ul"))]);
  if (days.length === 0) parts.push([JSON.stringify([shown.words, shown.narrow, shown.more]), () => nothing(shown)]);
  if (shown.more) parts.push(["older", older]);
  keepFocus(list, () => {
    showList(list, parts, ([mark]) => mark, ([, build]) => build());
    days.forEach(([, talks], at) => showList(/** @type {Element} */ (list.children[at].lastElementChild), talks, (talk) => lookOf(talk, shown), (talk) => conversation(talk, shown, actions)));
  });
}

/** All that the entry of a conversation shows and does. @param {Conversation} talk @param {Shown} shown */
function lookOf({ session, title, runs }, { current, offer, user }) {
  const open = runs.some((run) => run.id === current) && current;
  return JSON.stringify([session, title, open, runs.map((run) => [run.id, run.question, run.pinned, run.shared, outcome(run), runFacts(run, offer, user)])]);
}

/** @param {Shown} shown */
function nothing({ words, narrow, more }) {
  const among = more ? " among those loaded" : "";
  const text = words ? `No question matches “${words}”${among}.` : narrow ? `No question matches the filters${among}.` : "Your questions appear here.";
  return h("p", { class: "sidebar-empty", dir: "auto", text });
}

/** @param {Conversation} talk @param {Shown} shown @param {(talk: Conversation, button: HTMLElement) => void} actions */
function conversation(talk, shown, actions) {
  const last = talk.runs[talk.runs.length - 1];
  const open = talk.runs.some((run) => run.id === shown.current);
  const follows = open && talk.runs.length > 1;
  const more = iconButton("more", `More about “${talk.title.slice(0, 100)}”`, {
    id: `more-${talk.session}`,
    class: "entry-more",
    "aria-haspopup": "menu",
    "aria-expanded": false,
    on: { click: () => actions(talk, more) },
  });
  return h(
    "li",
    { class: open ? "talk open" : "talk", dataset: { session: talk.session } },
    h("div", { class: "entry-row" }, entry(follows ? talk.runs[0] : last, talk.title, shown, !open && talk.runs.length > 1 ? talk.runs.length : 0), more),
    follows && h("ul", { class: "turns" }, talk.runs.slice(1).map((run) => h("li", entry(run, run.question, shown, -1)))),
  );
}

/**
 * @param {Run} run
 * @param {string} title
 * @param {Shown} shown
 * @param {number} turns Questions that it stands for, where there are several; -1 for one within its conversation.
 */
function entry(run, title, { current, offer, user }, turns) {
  const [kind, words] = outcome(run);
  const facts = runFacts(run, offer, user);
  return h(
    "a",
    { class: "entry", href: runHash(run.id), title: `${title.slice(0, 300)}\n${[...facts, words].join(" · ")}`, "aria-current": run.id === current ? "page" : null, dataset: { run: run.id, state: kind || "answered" } },
    h(
      "span",
      { class: "entry-text" },
      h("span", { class: "clip", dir: "auto", text: title.replace(/\s+/g, " ") }),
      turns >= 0 && h("span", { class: "entry-facts clip", text: facts.join(" · ") }),
    ),
    turns > 0 && h("span", { class: "turn-count", title: count(turns, "question"), "aria-label": count(turns, "question"), text: turns }),
    kind && h("span", { class: `run-state ${kind}` }, kind === "failed" ? icon("warn") : kind === "stopped" ? icon("stop") : null, h("span", { class: "hidden-text", text: words })),
  );
}
