/**
 * The answer of a model as it is meant to be read: paragraphs, lists, tables, bold and code, of the little Markdown
 * that models write. What is none of these stays as it was written. No links, no pictures, no HTML: all is text nodes.
 */

import { h } from "../dom.js";

const BULLET = /^\s*[-*•]\s+(?=\S)/;
const NUMBER = /^\s*(\d{1,3})[.)]\s+(?=\S)/;
const HEADING = /^#{1,6}\s+(?=\S)/;
const ROW = /^\s*\|.*\|\s*$/;
const RULE = /^[\s|:-]+$/;
/** Bold, or code, within a line. */
const INLINE = /(\*\*(?=\S)[^*]+?\*\*|`[^`]+`)/;

/** @typedef {(text: string) => (Node | string)[]} Leaf Sets text that has no Markdown in it. */

/**
 * @param {string} text
 * @param {Leaf} [leaf] It is called for all text, in order.
 * @returns {HTMLElement[]}
 */
export function prose(text, leaf = (part) => [part]) {
  return text
    .trim()
    .split(/\n\s*\n/)
    .flatMap((block) => blocks(block.split("\n"), leaf));
}

/** A block of lines without an empty one, as parts of one kind each. @param {string[]} lines @param {Leaf} leaf @returns {HTMLElement[]} */
function blocks(lines, leaf) {
  /** @type {HTMLElement[]} */
  const made = [];
  for (let at = 0; at < lines.length; ) {
    const kind = kindOf(lines, at);
    let end = at + 1;
    while (end < lines.length && kind !== "heading" && (kindOf(lines, end) === kind || (kind === "table" && ROW.test(lines[end])))) end++;
    made.push(BUILT[kind](lines.slice(at, end), (part) => inline(part, leaf)));
    at = end;
  }
  return made;
}

/** @param {string[]} lines @param {number} at */
function kindOf(lines, at) {
  const line = lines[at];
  if (HEADING.test(line)) return "heading";
  if (BULLET.test(line)) return "bullets";
  if (NUMBER.test(line)) return "numbers";
  if (ROW.test(line) && ROW.test(lines[at + 1] ?? "") && isRule(lines[at + 1])) return "table";
  return "text";
}

/** @param {string} line Whether it stands below the head of a table. */
const isRule = (line) => line.includes("-") && RULE.test(line);

/** @type {Record<string, (lines: string[], inline: Leaf) => HTMLElement>} */
const BUILT = {
  text: (lines, inline) => h("p", { dir: "auto" }, inline(lines.join("\n"))),
  heading: ([line], inline) => h("p", { dir: "auto", class: "prose-heading" }, inline(line.replace(HEADING, ""))),
  bullets: (lines, inline) => h("ul", lines.map((line) => h("li", { dir: "auto" }, inline(line.replace(BULLET, ""))))),
  numbers: (lines, inline) => h("ol", { start: NUMBER.exec(lines[0])?.[1] ?? 1 }, lines.map((line) => h("li", { dir: "auto" }, inline(line.replace(NUMBER, ""))))),
  table: ([head, , ...rows], inline) =>
    h("div", { class: "prose-table", role: "region", tabindex: "0", "aria-label": "Table of the answer" }, h("table", h("thead", h("tr", cells(head).map((cell) => h("th", { dir: "auto", scope: "col" }, inline(cell))))), h("tbody", rows.map((row) => h("tr", cells(row).map((cell) => h("td", { dir: "auto" }, inline(cell)))))))),
};

/** @param {string} row */
const cells = (row) => row.trim().slice(1, -1).split("|").map((cell) => cell.trim());

/** @param {string} text @param {Leaf} leaf @returns {(Node | string)[]} */
function inline(text, leaf) {
  return text.split(INLINE).flatMap((part, index) => {
    if (index % 2 === 0) return leaf(part); // between what was found
    return part.startsWith("`") ? h("code", leaf(part.slice(1, -1))) : h("strong", leaf(part.slice(2, -2)));
  });
}
