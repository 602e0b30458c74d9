/** Past runs: grouped by conversation and day, newest first, with the outcome of each. */

import { counted } from "./run-options.js";
import { h, icon, redraw } from "./dom.js";
import { runHash } from "./router.js";
import { OFFLINE, NOT_FOUND } from "./run/wording.js";

/**
 * @typedef {{id: string, session: string, question: string, state: string, stop_reason: string | null, started: number,
 *   answer: string | null, agent: string, collection: string | null, model: string}} Run
 * @typedef {{session: string, title: string, runs: Run[], latest: number}} Conversation Runs in the order asked.
 */

/**
 * Conversations of some runs, the one asked in last first.
 * @param {Run[]} runs In any order.
 * @returns {Conversation[]}
 */
export function conversations(runs) {
  return [...grouped(runs, (run) => run.session || run.id)]
    .map(([session, turns]) => {
      const ordered = turns.sort((a, b) => a.started - b.started);
      return { session, title: ordered[0].question, runs: ordered, latest: ordered[ordered.length - 1].started };
    })
    .sort((a, b) => b.latest - a.latest);
}

/**
 * Conversations under the names of their days.
 * @param {Conversation[]} talks Newest first.
 * @param {Date} now
 * @returns {[string, Conversation[]][]}
 */
export function byDay(talks, now) {
  return [...grouped(talks, (talk) => dayName(new Date(talk.latest * 1000), now))];
}

/**
 * @template T
 * @param {T[]} list
 * @param {(one: T) => string} key
 * @returns {Map<string, T[]>}
 */
function grouped(list, key) {
  const groups = new Map();
  for (const one of list) groups.set(key(one), [...(groups.get(key(one)) ?? []), one]);
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
 * Conversations of which a question or an answer has all these words.
 * @param {Conversation[]} talks
 * @param {string} words
 * @returns {Conversation[]}
 */
export function matching(talks, words) {
  const wanted = words.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const text = (/** @type {Conversation} */ talk) => talk.runs.map((run) => `${run.question} ${run.answer ?? ""}`).join(" ").toLocaleLowerCase();
  return talks.filter((talk) => wanted.every((word) => text(talk).includes(word)));
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
  if (run.state === "running") return ["running", "Running"];
  if (run.state === "interrupted") return ["failed", "Interrupted"];
  if (run.stop_reason === "abstained" && run.model === OFFLINE) return ["abstained", NOT_FOUND.name];
  return ENDS[run.stop_reason ?? ""] ?? ["", "Answered"];
}

/**
 * Shows the list of past runs.
 * @param {HTMLElement} list
 * @param {object} shown
 * @param {Run[]} shown.runs
 * @param {string} shown.words What is searched for; empty for all.
 * @param {string | null} shown.current Id of the run that is open.
 * @param {boolean} shown.more Whether older ones can be loaded.
 * @param {() => void} loadMore
 */
export function showHistory(list, { runs, words, current, more }, loadMore) {
  const talks = matching(conversations(runs), words);
  const groups = byDay(talks, new Date()).map(([day, own]) =>
    h("section", { class: "day" }, h("h2", { text: day }), h("ul", own.map((talk) => conversation(talk, current)))),
  );
  const older = more && h("button", { type: "button", id: "older", class: "quiet", text: "Older runs", on: { click: loadMore } });
  redraw(list, groups.length > 0 ? groups : nothing(words, more), older);
}

/** @param {string} words @param {boolean} more */
function nothing(words, more) {
  const text = words ? `No run matches “${words}”${more ? " among those loaded" : ""}.` : "Your questions appear here.";
  return h("p", { class: "sidebar-empty", dir: "auto", text });
}

/** @param {Conversation} talk @param {string | null} current */
function conversation(talk, current) {
  const last = talk.runs[talk.runs.length - 1];
  const open = talk.runs.some((run) => run.id === current);
  const follows = open && talk.runs.length > 1;
  return h(
    "li",
    { class: open ? "talk open" : "talk", dataset: { session: talk.session } },
    entry(follows ? talk.runs[0] : last, talk.title, current, !open && talk.runs.length > 1 ? talk.runs.length : 0),
    follows && h("ul", { class: "turns" }, talk.runs.slice(1).map((run) => h("li", entry(run, run.question, current, 0)))),
  );
}

/** @param {Run} run @param {string} title @param {string | null} current @param {number} turns */
function entry(run, title, current, turns) {
  const [kind, words] = outcome(run);
  const time = new Date(run.started * 1000).toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hour12: false });
  return h(
    "a",
    { class: "entry", href: runHash(run.id), title: `${title.slice(0, 300)}\n${time} · ${words}`, "aria-current": run.id === current ? "page" : null, dataset: { run: run.id, state: kind || "answered" } },
    h("span", { class: "clip", dir: "auto", text: title.replace(/\s+/g, " ") }),
    turns > 0 && h("span", { class: "turn-count", title: counted(turns, "turn"), "aria-label": counted(turns, "turn"), text: turns }),
    kind && h("span", { class: `run-state ${kind}` }, kind === "failed" ? icon("warn") : kind === "stopped" ? icon("stop") : null, h("span", { class: "hidden-text", text: words })),
  );
}
