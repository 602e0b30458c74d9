/** Up to three questions that may follow on an answer: about the documents that it cites, and not asked before. */

import { get, Problem } from "../api.js";
import { h, replace } from "../dom.js";

/** @typedef {import("../suggestions.js").Suggestion} Suggestion */

const MOST = 3;
/** Questions of a document that are asked for, of which some may have been asked before. */
const OF_DOCUMENT = 6;
/** Milliseconds between two requests while they are being made, and how often they are asked for. */
const [POLL, PATIENCE] = [3_000, 10];
/** Part of the words of two questions from which they ask the same. */
const SAME = 0.7;

/**
 * The questions that are worth asking next.
 * @param {readonly Suggestion[]} found
 * @param {readonly string[]} asked In this conversation.
 * @returns {Suggestion[]}
 */
export function chooseNext(found, asked) {
  /** @type {Suggestion[]} */
  const chosen = [];
  for (const one of found) {
    if ([...asked, ...chosen.map(({ text }) => text)].every((other) => !isSame(one.text, other))) chosen.push(one);
    if (chosen.length === MOST) break;
  }
  return chosen;
}

/** @param {string} one @param {string} other */
function isSame(one, other) {
  const [words, others] = [wordsOf(one), wordsOf(other)];
  const shared = [...words].filter((word) => others.has(word)).length;
  return shared >= SAME * Math.max(words.size, others.size);
}

/** @param {string} text */
const wordsOf = (text) => new Set(text.toLowerCase().match(/\p{Script=Han}|[\p{L}\p{N}]+/gu) ?? []);

/** The questions below the last answer of a conversation. */
export class NextQuestions {
  #shown = "";
  #visit = 0;

  /** @param {(text: string) => void} fill Puts one into the question box. */
  constructor(fill) {
    this.fill = fill;
    this.list = h("ul", { class: "examples" });
    this.element = h("section", { class: "next-questions", "aria-label": "Questions to go on with", hidden: true }, h("h2", { class: "small-title", text: "Questions to go on with" }), this.list);
  }

  /**
   * Shows what may follow on the answer of a run; nothing without one.
   * @param {{run: string, documents: readonly string[], asked: readonly string[]} | null} last
   * @param {readonly string[]} collections Those that may hold the documents.
   */
  async show(last, collections) {
    const key = last?.run ?? "";
    if (key === this.#shown) return;
    this.#shown = key;
    const visit = ++this.#visit;
    this.element.hidden = true;
    if (last === null || last.documents.length === 0) return;
    const addresses = last.documents.flatMap((id) => collections.map((name) => `/collections/${encodeURIComponent(name)}/questions?document=${encodeURIComponent(id)}&limit=${OF_DOCUMENT}`));
    for (let turn = 0; turn < PATIENCE && visit === this.#visit; turn++) {
      try {
        const answers = await Promise.all(addresses.map((address) => get(address)));
        if (visit !== this.#visit || !this.element.isConnected) return;
        this.#draw(chooseNext(answers.flatMap(({ questions }) => questions), last.asked));
        if (!answers.some(({ pending }) => pending)) return;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        return; // they are a help, and nothing is lost without them
      }
      await new Promise((resolve) => setTimeout(resolve, POLL));
    }
  }

  /** @param {readonly Suggestion[]} questions */
  #draw(questions) {
    this.element.hidden = questions.length === 0;
    replace(this.list, questions.map(({ text }) => h("li", h("button", { type: "button", class: "example", dir: "auto", text, on: { click: () => this.fill(text) } }))));
  }

  /** What is on its way is not shown any more. */
  close() {
    this.#visit++;
  }
}
