/** The answer as it is meant to be read: what is Markdown is set, what is not stays as it was written. */

import assert from "node:assert/strict";
import { test } from "node:test";

/** As much of a document as the builders of elements ask for. */
class Element {
  constructor(tag) {
    Object.assign(this, { tag, children: [] });
  }
  append(...children) {
    this.children.push(...children);
  }
  setAttribute() {}
  set textContent(text) {
    this.children = [text];
  }
  get textContent() {
    return this.children.map((child) => child.textContent ?? child).join("");
  }
  toString() {
    return `<${this.tag}>${this.children.join("")}</${this.tag}>`;
  }
}
globalThis.Node = Element;
globalThis.document = { createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag) };

const { prose } = await import("./js/run/prose.js");
const set = (text) => prose(text).join("");

test("plain text is a paragraph, and keeps its lines", () => {
  for (const text of ["48,200", "one\ntwo", "-5 degrees", "2 * 3 * 4", "a | b", "**", "** no **", "3.5 m"]) assert.equal(set(text), `<p>${text}</p>`);
});

test("lists, headings and bold are set", () => {
  assert.equal(set("So:\n- **a**\n* b\n\n1. one\n2) two"), "<p>So:</p><ul><li><strong>a</strong></li><li>b</li></ul><ol><li>one</li><li>two</li></ol>");
  assert.equal(set("## Fares\nThe `fare`"), "<p>Fares</p><p>The <code>fare</code></p>");
});

test("a table needs the line below its head", () => {
  const table = set("| Ship | Price |\n|---|--:|\n| Gannet | **9** |\nafter");
  assert.match(table, /<th>Ship<\/th><th>Price<\/th>.*<td>Gannet<\/td><td><strong>9<\/strong><\/td>.*<p>after<\/p>/);
  assert.equal(set("| a | b |\n| c | d |"), "<p>| a | b |\n| c | d |</p>");
});

test("markup of a document is text, and no word is lost", () => {
  const text = "<img src=x onerror=alert(1)> **<b>x</b>** [a](javascript:b)";
  assert.equal(prose(text).map((one) => one.textContent).join(""), text.replaceAll("**", ""));
});

test("no text takes long", () => {
  for (const part of ["**a", "| ", "`", "- ", "**a** ", "#", "\n\n"]) {
    const began = performance.now();
    set(part.repeat(20_000));
    assert.ok(performance.now() - began < 5_000, part);
  }
});
