/** The verdicts on the claims of an answer, in words: the same as in vrag.render.verdicts. Pure. */

import { count } from "../format.js";
import { wordsOf } from "./cited-text.js";

/** @typedef {import("./cited-text.js").Claim} Claim */

/** The verdicts in words, in the order in which they are counted. @type {Record<string, string>} */
const VERDICTS = { supported: "supported", contradicted: "contradicted", not_found: "not found", only_visible: "only visible" };

/** Punctuation at the end of words that are quoted. */
const ENDS = /[\s.,:;!?。！？；：]+$/;
/** Markdown around words that are quoted. */
const EMPHASIS = /^[*_`~|]+|[*_`~|]+$/g;
/** Characters of a claim, and of the words of the evidence, in a line about it. */
const MAX_QUOTE = 200;

/** How many claims were checked, and with which verdicts; empty without any. @param {readonly Claim[]} claims */
export function claimSummary(claims) {
  if (claims.length === 0) return "";
  const counts = Object.entries(VERDICTS).map(([verdict, name]) => [claims.filter((claim) => claim.verdict === verdict).length, name]);
  return `${count(claims.length, "claim")} checked: ${counts.flatMap(([number, name]) => (number ? `${number} ${name}` : [])).join(", ")}.`;
}

/** The claims that are not supported, in order; of those that overlap the narrowest. @param {readonly Claim[]} claims */
export function notableClaims(claims) {
  const unsupported = claims.filter((claim) => claim.verdict !== "supported");
  const narrow = unsupported.filter((claim) => claim.kind !== "sentence");
  const whole = unsupported.filter((claim) => claim.kind === "sentence" && !narrow.some((part) => claim.start < part.end && part.start < claim.end));
  return [...narrow, ...whole].sort((a, b) => a.start - b.start || a.end - b.end);
}

/**
 * What the evidence says about a claim, as a sentence in pieces: words, and numbers of the evidence.
 * @param {string} answer
 * @param {Claim} claim
 * @returns {(string | number)[]}
 */
export function claimParts(answer, claim) {
  const words = `“${cut(wordsOf(answer, claim))}”`;
  const at = claim.numbers.length ? [" ", ...claim.numbers] : [];
  switch (claim.verdict) {
    case "supported":
      return ["Supported", ...at, `: ${words}.`];
    case "contradicted":
      return claim.found ? [`The evidence says “${cut(claim.found)}”`, ...at, `, not ${words}.`] : ["The evidence", ...at, ` contradicts ${words}.`];
    case "only_visible":
      return ["Only a look at the picture", ...at, ` can tell: ${words}.`];
    default:
      return [`Not found in the evidence: ${words}.`];
  }
}

/** The same as text, with the numbers in brackets. @param {string} answer @param {Claim} claim */
export const claimText = (answer, claim) => claimParts(answer, claim).map((part) => (typeof part === "number" ? `[${part}]` : part)).join("");

/** @param {string} text */
function cut(text) {
  const line = text.split(/[\s\x1c-\x1f\x85]+/).filter(Boolean).join(" ");
  const characters = [...line];
  const shown = characters.length <= MAX_QUOTE ? line : `${characters.slice(0, MAX_QUOTE - 1).join("")}…`;
  return shown.replace(EMPHASIS, "").replace(ENDS, "");
}
