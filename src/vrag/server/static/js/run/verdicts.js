/** The verdicts on the claims of an answer, in words: the same as in vrag.render.verdicts. Pure. */

import { count } from "../format.js";
import { wordsOf } from "./cited-text.js";

/** @typedef {import("./cited-text.js").Claim} Claim */

/** The verdicts that rest on the picture, and those on claims that the evidence says. */
const VERIFIED = ["seen", "computed"];
const HELD = [...VERIFIED, "stated"];
/** The other verdicts in words, in the order in which they are counted. @type {Record<string, string>} */
const OTHERS = { stated: "stated in the text", doubted: "doubted", unverified: "not found" };
/** What says something else than a claim, where it is not the text of its evidence. @type {Record<string, string>} */
const WITNESSES = { second_reading: "The picture, read again,", other_evidence: "Another piece of the evidence", model: "The picture" };
/** What is said of an answer without a model. */
const LOOK_WHETHER = "Check whether it answers the question.";
const BY_READER = `Found on the page, without a model. ${LOOK_WHETHER}`;

/** Punctuation at the end of words that are quoted. */
const ENDS = /[\s.,:;!?。！？；：]+$/;
/** Markdown around words that are quoted. */
const EMPHASIS = /^[*_`~|]+|[*_`~|]+$/g;
/** Characters of a claim, and of the words of the evidence, in a line about it. */
const MAX_QUOTE = 200;

/** @param {Claim} claim */
const isVerified = (claim) => VERIFIED.includes(claim.verdict);

/** How many statements are verified, and what is known of the others; empty without any. @param {readonly Claim[]} claims */
export function claimSummary(claims) {
  const statements = listStatements(claims);
  if (statements.length === 0) return "";
  const verified = statements.filter(isVerified).length;
  if (statements.length === 1) return `1 statement, ${OTHERS[statements[0].verdict] ?? "verified on the page"}.`;
  const counts = Object.entries(OTHERS).map(([verdict, name]) => [statements.filter((claim) => claim.verdict === verdict).length, name]);
  const others = counts.flatMap(([number, name]) => (number ? [`${number} ${name}`] : []));
  return `${[`${verified || "None"} of ${count(statements.length, "statement")} verified on the page`, ...others].join(", ")}.`;
}

/** The sentences, and the numbers and dates that stand alone. @param {readonly Claim[]} claims */
function listStatements(claims) {
  const sentences = claims.filter((claim) => claim.kind === "sentence");
  return claims.filter((claim) => claim.kind === "sentence" || !sentences.some((whole) => whole.start <= claim.start && claim.end <= whole.end));
}

/**
 * How the words of an answer without a model were found.
 * @param {readonly Claim[]} claims
 * @param {(number: number) => string} pageName The name of the page of a piece of evidence.
 */
export function readerRemark(claims, pageName) {
  if (claims.length === 0 || !claims.every(isVerified)) return BY_READER;
  const numbers = claims.flatMap((claim) => claim.numbers).sort((a, b) => a - b);
  const places = [...new Set(numbers.map(pageName))].join(" and ") || "the page";
  return `These words stand on ${places} (read twice: as text and as a picture). ${LOOK_WHETHER}`;
}

/** The claims that are listed, in order: those that the evidence does not say, and the other statements. @param {readonly Claim[]} claims */
export function listedClaims(claims) {
  const notable = notableClaims(claims);
  const others = listStatements(claims).filter((claim) => !notable.some((one) => one.start < claim.end && claim.start < one.end));
  return [...notable, ...others].sort((a, b) => a.start - b.start || a.end - b.end);
}

/** The claims that the evidence does not say, in order; of those that overlap the narrowest. @param {readonly Claim[]} claims */
export function notableClaims(claims) {
  const notable = claims.filter((claim) => !HELD.includes(claim.verdict));
  const narrow = notable.filter((claim) => claim.kind !== "sentence");
  const whole = notable.filter((claim) => claim.kind === "sentence" && !narrow.some((part) => claim.start < part.end && part.start < claim.end));
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
    case "seen":
      return ["Seen on the page", ...at, `: ${words}.`];
    case "computed":
      return ["Computed from what is seen on the page", ...at, `: ${words}, from ${cut(claim.found)}.`];
    case "stated":
      return ["Stated in the text", ...at, `: ${words}.`];
    case "doubted": {
      const witness = WITNESSES[claim.doubt ?? ""] ?? "The evidence";
      return claim.found ? [`${witness} says “${cut(claim.found)}”`, ...at, `, not ${words}.`] : [witness, ...at, ` contradicts ${words}.`];
    }
    default:
      return [claim.needs_picture ? `Only a look at the picture can tell: ${words}.` : `Not found in the evidence: ${words}.`];
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
