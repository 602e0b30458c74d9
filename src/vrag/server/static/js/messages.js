/** Messages of the server in the words of the page: they name what stands on it, not fields, settings or commands. Pure. */

/** What the page calls the fields of a request that a refusal names. @type {Record<string, string>} */
const FIELDS = {
  agent: "The agent", base_url: "The address of the server", collection: "The collection", crop_nodes: "“Zoom into pictures from memory”", documents: "The chosen documents", images: "The pictures",
  max_steps: "The number of steps", model: "The model", name: "The name", question: "The question", runs: "The questions of the report", session: "The conversation", thinking: "“Thinking”", title: "The title", top_k: "The number of hits", verify: "“Claims in doubt”",
};

/** Settings and commands, which only the administrator of the server has. */
const SETTING = /\bVRAG_[A-Z]|`vrag |\bvrag (?:collections|config|corpus|doctor|eval|index|runs|search|serve|tokens|train)\b|--ocr\b/;
const ADMINISTRATOR = "The administrator of this server can change this.";
/** What the page has in their place. @type {[RegExp, string][]} */
const REMEDIES = [
  [/--ocr\b/, "A collection with OCR reads it."],
  [/\bVRAG_PROFILE\b|\bvrag doctor --coords\b/, "Choose the model family in Settings."],
  [/\bVRAG_MODEL_KEY\b/, "Enter the key of the model in Settings."],
  [/\bVRAG_(?:MODEL|BASE_URL)\b/, "Choose a model in Settings."],
  [/\bVRAG_THINKING\b/, "Set “Thinking” to “Model default” in the options of the question."],
];
/** A statement, and a remedy after it in the same sentence. */
const STATEMENT = /^((?:it|its|the|there|this|these) [^:;]*)[:;] /i;
const SENTENCE_END = /([.!?]["”’)]?)\s+(?=["“‘`(]?[A-Z])/g;

/**
 * A text without the settings and commands of the server: a sentence that names one says what can be done on the page instead.
 * @param {string} text
 * @returns {string}
 */
export function rewriteForPage(text) {
  if (!SETTING.test(text)) return text;
  const lines = text.split("\n").map((line) => [...new Set(line.replace(SENTENCE_END, "$1\n").split("\n").flatMap(rewriteSentence))].join(" "));
  return lines.join("\n");
}

/** @param {string} sentence @returns {string[]} */
function rewriteSentence(sentence) {
  const shorter = sentence.includes("--") ? sentence : sentence.replace(/ \(VRAG_[A-Z_]+\)/g, "");
  if (!SETTING.test(shorter)) return [shorter];
  const statement = STATEMENT.exec(shorter)?.[1] ?? "";
  const isKept = statement !== "" && !SETTING.test(statement);
  if (/^The administrator of this server /.test(shorter)) return [isKept ? `${statement}.` : ADMINISTRATOR];
  const remedy = REMEDIES.find(([name]) => name.test(shorter))?.[1] ?? ADMINISTRATOR;
  return isKept ? [`${statement}.`, remedy] : [remedy];
}

/**
 * A refusal in the words of the page: `top_k: It must be at least 1.` names what stands on it, and no hint speaks of requests.
 * @param {string} detail @param {string} hint
 * @returns {[string, string]}
 */
export function rewriteRefusal(detail, hint) {
  const [, field, rest] = detail.match(/^([a-z]\w*)(?:\[\d+\])*: (.+)$/s) ?? [];
  const isForPrograms = /\b(?:GET|POST|PUT) \/|JSON|\/openapi/.test(hint);
  const names = FIELDS[field] ?? (field && "Part of the request");
  const sentence = field ? `${names}: ${rest[0].toLowerCase()}${rest.slice(1)}` : detail;
  return [rewriteForPage(sentence), isForPrograms || field ? "Change it, or load the page again." : rewriteForPage(hint)];
}
