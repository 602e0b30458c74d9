/** Methods, and the ends of runs with their reasons, in words. */

import { count } from "../format.js";

/** Names of the methods. @type {Record<string, string>} */
export const METHODS = { vrag: "VRAG", vimrag: "VimRAG", rag: "RAG", react: "ReAct" };

/** Policy that quotes without a model. */
export const WITHOUT_MODEL = "extractive";

/**
 * The end of a run: its name, how good it is, what it means, and what can be done.
 * @typedef {{name: string, mood: "ok" | "calm" | "fair" | "bad", said: string, hint: string}} Ending
 * @type {Record<string, Ending>}
 */
export const ENDINGS = {
  answered: { name: "Answered", mood: "ok", said: "", hint: "" },
  abstained: {
    name: "No answer in the documents",
    mood: "calm",
    said: "The agent found no answer in the documents that it can support.",
    hint: "Ask in the words that the documents use, name the document, or add the one that holds the answer.",
  },
  out_of_steps: {
    name: "Out of steps",
    mood: "fair",
    said: "The run used all its steps before there was an answer.",
    hint: "Ask again with more steps, or ask for less at once.",
  },
  out_of_tokens: {
    name: "Out of tokens",
    mood: "fair",
    said: "The model had no room left for its answer, or its reply was cut off.",
    hint: "Ask for less at once, or choose a model that reads and writes more.",
  },
  out_of_budget: {
    name: "Budget spent",
    mood: "fair",
    said: "The budget of the run was spent before there was an answer.",
    hint: "Ask for less at once. The administrator of this server can raise the budget.",
  },
  cancelled: {
    name: "Stopped",
    mood: "fair",
    said: "The run was stopped before there was an answer.",
    hint: "Its steps are kept. Ask again to start over.",
  },
  model_error: {
    name: "Model failed",
    mood: "bad",
    said: "The model failed or could not be reached.",
    hint: "Ask again in a moment. If the problem persists, choose another model, or check the model's server.",
  },
  search_error: {
    name: "Search failed",
    mood: "bad",
    said: "The search or the collection failed.",
    hint: "Ask again. If the problem persists, contact the administrator of this server: the collection may be damaged.",
  },
  fault: {
    name: "Internal error",
    mood: "bad",
    said: "The server failed, or could not store the run.",
    hint: "Ask again. If the problem persists, contact the administrator of this server: its log says why.",
  },
};

/**
 * A run that used up its steps because its model does not write what the agent asks for.
 * @param {number} refused Replies. @param {number} all
 * @returns {Ending}
 */
export const formatLost = (refused, all) => ({
  name: "The model does not keep to the format",
  mood: "fair",
  said: `${refused} of its ${count(all, "reply")} could not be carried out: it does not write the actions that this agent asks for.`,
  hint: "More steps would not help. Choose another model, or another agent: RAG asks least of a model.",
});

/** An answer without a model. @type {Ending} */
export const FOUND_ON_PAGE = { name: "Found on the page", mood: "calm", said: "", hint: "" };

/** A run without a model that has no answer, but places. @type {Ending} */
export const PLACES = {
  name: "Places to look",
  mood: "calm",
  said: "These passages may answer it:",
  hint: "A model may be able to answer from these passages.",
};

/** A run without a model that has neither. @type {Ending} */
export const NOTHING = {
  name: "Nothing found",
  mood: "calm",
  said: "Nothing was found in the documents searched.",
  hint: "Ask in the words that the documents use, or add the document that holds the answer.",
};

/** A run whose answer was withdrawn. @type {Ending} */
export const WITHDRAWN = {
  name: "Answer withdrawn",
  mood: "calm",
  said: "The evidence does not support the answer that the agent found:",
  hint: "Look at the evidence, ask for less at once, or add the document that holds the answer.",
};

/** A run whose process ended before it did. @type {Ending} */
export const CUT_OFF = {
  name: "Interrupted",
  mood: "fair",
  said: "This run was interrupted: the server stopped before the run had ended.",
  hint: "Its steps are kept. Ask again to start over.",
};
