/** Suggested questions under the question box: of the chosen documents, or of the collection that is asked. */

import { get, Problem } from "./api.js";
import { h, showList } from "./dom.js";
import { plainName } from "./file-names.js";

const FEW = 6;
/** Documents, or collections, whose questions are shown together. */
const SOURCES = 3;
const POLL = 3_000;
/** Times that missing ones are asked for. */
const PATIENCE = 40;

/** @typedef {{text: string, document: string, name: string}} Suggestion */

/**
 * @param {object} how
 * @param {string[]} how.examples Of the server, shown before others.
 * @param {(text: string) => void} how.fill
 * @returns {{element: HTMLElement, show: (collections: string[], documents: {id: string, collection: string | null}[]) => Promise<void>}}
 *   What `show` returns ends when those that there are already stand there.
 */
export function suggestions({ examples, fill }) {
  const list = h("ul", { class: "examples", id: "examples" });
  const element = h("section", { "aria-labelledby": "examples-title", hidden: true }, h("h2", { id: "examples-title", class: "small-title", text: "Questions to begin with" }), list);
  let visit = 0;
  let shown = "";

  const draw = (/** @type {Suggestion[]} */ found, /** @type {boolean} */ named) => {
    element.hidden = found.length === 0;
    const mark = JSON.stringify(found);
    if (mark === shown) return;
    shown = mark;
    const markOf = (/** @type {Suggestion} */ one) => JSON.stringify([one, named]);
    showList(list, found.slice(0, FEW), markOf, (one) => h("li", h("button", { type: "button", class: "example", on: { click: () => fill(one.text) } }, h("span", { dir: "auto", text: one.text }), named && one.name !== "" && h("span", { class: "example-of clip faint size-1", dir: "auto", text: plainName(one) }))));
  };
  const load = async (/** @type {string[]} */ addresses, /** @type {boolean} */ named, /** @type {Suggestion[]} */ before, /** @type {() => void} */ drawn) => {
    const now = ++visit;
    for (let turn = 0; turn < PATIENCE && now === visit; turn++) {
      try {
        const answers = await Promise.all(addresses.map((address) => get(address)));
        if (now !== visit || (turn > 0 && !element.isConnected)) return;
        draw([...before, ...inTurn(answers.map(({ questions }) => questions))], named);
        drawn();
        if (!answers.some(({ pending }) => pending)) return;
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        return; // they are a help, and nothing is lost without them
      }
      await new Promise((resolve) => setTimeout(resolve, POLL));
    }
  };
  return {
    element,
    show: async (collections, documents) => {
      const some = documents.filter((one) => one.collection !== null).slice(0, SOURCES);
      const addresses = documents.length > 0 ? some.map(({ id, collection }) => `${questionsOf(collection ?? "")}?document=${encodeURIComponent(id)}&limit=${FEW}`) : collections.slice(0, SOURCES).map((name) => `${questionsOf(name)}?limit=${FEW}`);
      const before = documents.length > 0 ? [] : examples.map((text) => ({ text, document: "", name: "" }));
      draw(before, false);
      if (before.length < FEW) await new Promise((resolve) => load(addresses, documents.length !== 1, before, () => resolve(null)).then(resolve));
    },
  };
}

/** @param {string} collection */
const questionsOf = (collection) => `/collections/${encodeURIComponent(collection)}/questions`;

/** @param {Suggestion[][]} groups @returns {Suggestion[]} The first of each, then the second ones. */
function inTurn(groups) {
  const longest = Math.max(0, ...groups.map((group) => group.length));
  return Array.from({ length: longest }, (_, at) => groups.flatMap((group) => group.slice(at, at + 1))).flat();
}
