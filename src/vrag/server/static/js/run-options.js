/** Options of a question: agent, model, collection, and those of its agent. Stored for the next visit. */

import { h } from "./dom.js";
import { count } from "./format.js";
import { WITHOUT_MODEL } from "./run/wording.js";

const KEPT = "vrag.options";

/**
 * @typedef {object} Choices `max_steps` and `top_k` are null for the agent's own numbers, `collection` for all.
 * @property {string} agent
 * @property {string} model
 * @property {string | null} collection
 * @property {number | null} max_steps
 * @property {number | null} top_k
 * @property {"auto" | "on" | "off"} thinking
 * @property {boolean | null} crop_nodes Whether VimRAG zooms into pictures that it remembers.
 * @property {string | null} verify What is done about claims that the evidence does not support.
 */

const THINKING = [
  { name: "auto", title: "Model default" },
  { name: "on", title: "On" },
  { name: "off", title: "Off" },
];

const CROPS = [
  { name: "on", title: "On" },
  { name: "off", title: "Off" },
];
const VERIFY = [
  { name: "tell", title: "Show them" },
  { name: "repair", title: "Let the model look again" },
  { name: "withdraw", title: "Withdraw the answer" },
  { name: "off", title: "Do not check" },
];

/**
 * The stored options, as far as the server still offers them; its defaults for the rest.
 * @param {any} offer
 * @param {Record<string, any>} kept
 * @returns {Choices}
 */
export function selectOptions(offer, kept) {
  const named = (/** @type {string} */ key, /** @type {{name: string}[]} */ offered) =>
    offered.some((one) => one.name === kept[key]) ? kept[key] : (offer.defaults[key] ?? offered[0]?.name);
  const within = (/** @type {"max_steps" | "top_k"} */ key, /** @type {number} */ most) =>
    Number.isInteger(kept[key]) && kept[key] >= 1 && kept[key] <= most ? kept[key] : (offer.defaults[key] ?? null);
  const collection = kept.collection === null ? null : offer.collections.find((/** @type {any} */ one) => one.name === kept.collection);
  return {
    agent: named("agent", offer.agents),
    model: named("model", offer.models),
    collection: collection === undefined ? offer.defaults.collection : (collection?.name ?? null),
    max_steps: within("max_steps", offer.limits.steps),
    top_k: within("top_k", offer.limits.top_k),
    thinking: THINKING.some((one) => one.name === kept.thinking) ? kept.thinking : (offer.defaults.thinking ?? "auto"),
    crop_nodes: typeof kept.crop_nodes === "boolean" ? kept.crop_nodes : (offer.defaults.crop_nodes ?? null),
    verify: VERIFY.some((one) => one.name === kept.verify) ? kept.verify : (offer.defaults.verify ?? null),
  };
}

/**
 * The options of a follow-up, instead of the stored ones: those of the run that it follows. A model that is
 * offered no more gives way to the usual one; what is not known of a run stays as it was kept.
 * @param {any} offer
 * @param {{agent: string, model: string, collection: string | null}} run
 * @param {Record<string, any>} kept
 * @returns {Record<string, any>}
 */
export function followUpOptions(offer, { agent, model, collection }, kept) {
  return { ...kept, agent, model: offeredAs(offer.models, model), collection };
}

/**
 * The name by which a model is offered that wrote the replies of a run; undefined where it is offered no more.
 * @param {{name: string}[]} models
 * @param {string} policy
 */
function offeredAs(models, policy) {
  const bare = policy === WITHOUT_MODEL ? "" : policy.replace(/^(chat|local):/, "");
  return (models.find(({ name }) => name === bare) ?? models.find(({ name }) => bare && name.split("@")[0] === bare))?.name;
}

/** @returns {Record<string, any>} */
export function storedOptions() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}") ?? {};
  } catch {
    return {};
  }
}

/**
 * Stores what differs from the server's defaults: the rest follows them, such as a model that is chosen later.
 * @param {any} offer
 * @param {Choices} choices
 */
export function storeOptions(offer, choices) {
  const own = Object.entries(choices).filter(([key, value]) => value !== (offer.defaults[key] ?? null));
  localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(own)));
}

/** Forgets the stored model, so that questions go to the one that was chosen just now. */
export function followChosenModel() {
  const { model: _, ...rest } = storedOptions();
  localStorage.setItem(KEPT, JSON.stringify(rest));
}

/**
 * The label of the collapsed options: the most important choices, in words.
 * @param {any} offer
 * @param {Choices} choices
 * @returns {string[]}
 */
export function describeOptions(offer, choices) {
  const titled = (/** @type {any[]} */ offered, /** @type {string} */ name) =>
    (offered.find((one) => one.name === name)?.title ?? name).split(": ")[0]; // what follows explains it, in the list
  const words = [titled(offer.agents, choices.agent), titled(offer.models, choices.model)];
  if (offer.collections.length > 1) words.push(choices.collection ?? "All collections");
  if (choices.max_steps) words.push(count(choices.max_steps, "step"));
  if (choices.top_k) words.push(count(choices.top_k, "hit"));
  if (choices.thinking !== "auto") words.push(`Thinking ${choices.thinking}`);
  if (choices.verify && choices.verify !== offer.defaults.verify) words.push(`Claims in doubt: ${titled(VERIFY, choices.verify)}`);
  return words;
}

/**
 * The controls of the options: agent, model and collection, and the others unfolded or behind “More options”.
 * @param {any} offer
 * @param {Choices} choices Changed in place.
 * @param {() => void} changed
 * @param {{folded?: boolean}} [how]
 * @returns {HTMLElement}
 */
export function optionFields(offer, choices, changed, { folded = true } = {}) {
  const set = (/** @type {keyof Choices} */ key, /** @type {any} */ value) => {
    Object.assign(choices, { [key]: value });
    agentsOwn();
    changed();
  };
  const steps = numberField("Steps", "max_steps", offer.limits.steps, choices, set);
  const hits = numberField("Hits per search", "top_k", offer.limits.top_k, choices, set);
  const crops = selectField("Zoom into remembered pictures", "crop_nodes", CROPS, choices.crop_nodes === false ? "off" : "on", (name) => set("crop_nodes", name === "on"));
  const agentsOwn = () => {
    const agent = offer.agents.find((/** @type {any} */ one) => one.name === choices.agent);
    for (const [field, number] of [[steps, agent?.steps], [hits, agent?.hits]]) {
      /** @type {HTMLInputElement} */ (field.querySelector("input")).placeholder = number ? `${number}` : "Automatic";
    }
    crops.hidden = choices.agent !== "vimrag";
  };
  agentsOwn();
  const all = { name: "", title: "All" };
  const collections = [all, ...offer.collections.map((/** @type {any} */ one) => ({ name: one.name, title: one.name }))];
  const more = [
    steps,
    hits,
    selectField("Thinking", "thinking", THINKING, choices.thinking, (name) => set("thinking", name)),
    crops,
    selectField("Claims in doubt", "verify", VERIFY, choices.verify ?? "tell", (name) => set("verify", name)),
  ];
  return h(
    "div",
    { class: "choices", role: "group", "aria-label": "Options" },
    selectField("Agent", "agent", offer.agents, choices.agent, (name) => set("agent", name)),
    selectField("Model", "model", offer.models, choices.model, (name) => set("model", name)),
    selectField("Collection", "collection", collections, choices.collection ?? "", (name) => set("collection", name || null)),
    folded ? h("details", { class: "more-options" }, h("summary", { id: "more-options", text: "More options" }), h("div", { class: "choices-more" }, more)) : more,
  );
}

/**
 * @param {string} label
 * @param {string} key
 * @param {{name: string, title: string}[]} offered
 * @param {string} value
 * @param {(name: string) => void} set
 */
function selectField(label, key, offered, value, set) {
  const options = offered.map(({ name, title }) => h("option", { value: name, selected: name === value, text: title || name }));
  const change = (/** @type {Event} */ event) => set(/** @type {HTMLSelectElement} */ (event.target).value);
  return h("label", { class: "field" }, label, h("select", { id: `choice-${key}`, on: { change } }, options));
}

/**
 * @param {string} label
 * @param {"max_steps" | "top_k"} key
 * @param {number} most
 * @param {Choices} choices
 * @param {(key: "max_steps" | "top_k", value: number | null) => void} set
 */
function numberField(label, key, most, choices, set) {
  const change = (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.target);
    const number = Math.round(input.valueAsNumber);
    const value = Number.isNaN(number) ? null : Math.min(Math.max(number, 1), most);
    input.value = value === null ? "" : String(value);
    set(key, value);
  };
  const props = { id: `choice-${key}`, type: "number", min: 1, max: most, step: 1, inputmode: "numeric", value: choices[key] ?? "", on: { change } };
  return h("label", { class: "field" }, label, h("input", props));
}
