/** The Markdown of a text that is still being written: what it ends in is shown as what it is going to be. Pure. */

import { readMarkdown } from "./markdown.js";

/** @typedef {import("./markdown.js").Block} Block */

/** Signs at the end of which it is not known yet what they begin or end. */
const UNDECIDED = "*_~`\\";
/** A last line that is nothing yet: the beginning of a list, a heading, a rule, a fence, a table or the line below a heading. */
const BEGUN = /^[ \t>]*(?:[-+*=_#~`|]+|\d{1,9}[.)]?)[ \t]*$/;
const NUMBER = /^\d+$/;
/** A row that may become the head of a table, and the line below it as far as it is written. */
const ROW = /^([ \t]*)\|/;
const BELOW = /^[ \t]*(?:\|[ \t:|-]*)?$/;

/**
 * The blocks of a draft. Those that were read of its beginning, and cannot change any more, are taken over.
 * @param {string} text
 * @param {{text: string, blocks: readonly Block[]}} [before] What was read of it when it was shorter.
 * @returns {Block[]}
 */
export function readDraft(text, before) {
  const kept = before && text.startsWith(before.text) ? settled(before.text, before.blocks) : [];
  const from = kept.length > 0 && before ? lineStart(text, before.blocks[kept.length].start) : 0;
  return [...kept, ...readMarkdown(completed(text), { open: true, from })];
}

/** The blocks before the last one that a blank line stands before. @param {string} text @param {readonly Block[]} blocks */
function settled(text, blocks) {
  for (let count = blocks.length - 1; count > 0; count--) {
    if (/\n[ \t]*\r?\n/.test(text.slice(blocks[count - 1].end, blocks[count].start))) return blocks.slice(0, count);
  }
  return [];
}

/**
 * The text without signs that mean nothing yet, and with the line that makes a table of the rows that it ends in.
 * @param {string} text
 */
export function completed(text) {
  const start = lineStart(text, text.length);
  const line = text.slice(start);
  const above = lineBefore(text, start);
  const isRow = ROW.test(above);
  if (isRow && BELOW.test(line) && !ROW.test(lineBefore(text, start - above.length - 1))) return `${text.slice(0, start)}${below(above)}`;
  if (BEGUN.test(line) && (start > 0 || !NUMBER.test(line.trim()))) return text.slice(0, start);
  let end = line.length;
  while (end > 0 && UNDECIDED.includes(line[end - 1])) end--;
  const cut = line.slice(0, end);
  if (ROW.test(line) && BEGUN.test(cut)) return text.slice(0, start);
  return `${text.slice(0, start)}${cut}${ROW.test(line) && !isRow ? `\n${below(cut)}` : ""}`;
}

/** The line below a head. @param {string} head */
function below(head) {
  const cells = head.trim().replace(/^\||\|$/g, "").replaceAll("\\|", "").split("|").length;
  return `${ROW.exec(head)?.[1] ?? ""}|${"---|".repeat(cells)}`;
}

/** @param {string} text @param {number} at */
const lineStart = (text, at) => text.lastIndexOf("\n", at - 1) + 1;

/** The line that ends before a place, without its end. @param {string} text @param {number} start */
function lineBefore(text, start) {
  return start > 0 ? text.slice(lineStart(text, start - 1), start - 1) : "";
}
