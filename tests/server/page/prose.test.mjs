/** The answer as it is meant to be read: what is Markdown is set, what is not stays as it was written. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { install } from "./dom.mjs";

const Element = install();
const { ProseView, plainText, prose } = await import("./js/run/prose.js");
const set = (text) => prose(text).join("");
const words = (text) => prose(text).map((one) => one.textContent).join("");

test("plain text is a paragraph, and keeps its lines", () => {
  for (const text of ["48,200", "one\ntwo", "-5 degrees", "2 * 3 * 4", "a | b", "**", "** no **", "3.5 m", "a_b_c"]) assert.equal(set(text), `<p>${text}</p>`);
});

test("lists, headings, code and emphasis are set", () => {
  assert.equal(set("So:\n- **a**\n- *b*\n\n1. one\n2. two\n\n   more"), "<p>So:</p><ul><li><strong>a</strong></li><li><em>b</em></li></ul><ol><li><p>one</p></li><li><p>two</p><p>more</p></li></ol>");
  assert.equal(set("- a\n  - b\n- c"), "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>");
  assert.equal(set("> a  \nb\n\n---\n```py\nx\n```"), "<blockquote><p>a<br></br>b</p></blockquote><hr></hr><pre><code>x</code></pre>");
  assert.equal(set("~~a~~ `b` \\*c\\* &amp;"), "<p><del>a</del> <code>b</code> *c* &</p>");
});

test("headings stand below the question and its answer, the highest first", () => {
  assert.equal(set("## A\n#### B\n###### C"), "<h3>A</h3><h5>B</h5><h6>C</h6>");
  assert.equal(set("# A\n### B"), "<h3>A</h3><h5>B</h5>");
});

test("a table needs the line below its head; its cells are aligned, and hold markup", () => {
  const [table] = prose("| Ship | Price |\n|---|--:|\n| Gannet | **9** \\| `x` |\n| Tern |");
  assert.match(table.toString(), /<th>Ship<\/th><th>Price<\/th>.*<td>Gannet<\/td><td><strong>9<\/strong> \| <code>x<\/code><\/td>.*<td>Tern<\/td><td><\/td>/);
  assert.match(JSON.stringify(table, (key, value) => (key === "parent" ? undefined : value instanceof Map ? [...value] : value)), /align-right/);
  assert.equal(set("| a | b |\n| c | d |"), "<p>| a | b |\n| c | d |</p>");
});

test("markup of a document is text, and no word is lost", () => {
  const text = "<img src=x onerror=alert(1)> <b>x</b> ![x](http://example.invalid/x.png)";
  assert.equal(set(text), `<p>${text}</p>`);
  assert.equal(words("| a |\n|---|\n| 1 | 2 | 3 |"), "a123");
  assert.equal(words(">".repeat(300)).length + 1 > 200, true);
});

test("the address of a link is shown, and leads nowhere", () => {
  for (const [text, shown] of [["[a](javascript:b)", "a (javascript:b)"], ["[https://a.b](https://c.d)", "https://a.b (https://c.d)"], ["<https://a.b>", "https://a.b"], ["[x](<a b> 'y')", "x (a b)"]]) {
    assert.equal(words(text), shown);
    assert.doesNotMatch(set(text), /<a>|<img>/);
  }
});

test("formulas stay as they were written", () => {
  for (const text of ["$a_1 * b_2$ and $c_3 * d$", "\\(x*y*z\\) and \\[a_b_c\\]", "$$\na\n- b\n= c\n$$"]) assert.equal(words(text), text);
  assert.equal(set("It costs $5, **not** $6."), "<p>It costs $5, <strong>not</strong> $6.</p>");
});

test("amounts of money are no formulas, and formulas are told from their signs", async () => {
  for (const text of ["$5 and $7", "US$5–$7", "$100 or 50 US$", "$1.5 million to $2 million", "5$ or 6$"]) assert.equal(set(text), `<p>${text}</p>`);
  assert.equal(set("So $x_1 = 5$ and $5$."), "<p>So <span>$x_1 = 5$</span> and <span>$5$</span>.</p>");
  const { partsOf } = await import("./js/run/formulas.js");
  assert.deepEqual(partsOf("$x$"), { tex: "x", display: false });
  assert.deepEqual(partsOf("\\(x\\)"), { tex: "x", display: false });
  assert.deepEqual(partsOf(" $$\nx\n$$ "), { tex: "x", display: true });
  assert.deepEqual(partsOf("\\[x\\]"), { tex: "x", display: true });
  for (const text of ["x", "$", "$$", "$$$$", "\\(x", `$${"x".repeat(3000)}$`]) assert.equal(partsOf(text), null);
});

test("a block of a formula is reached by keyboard, so that it can be scrolled", () => {
  const [block] = prose("$$\nx\n$$");
  assert.deepEqual([block.className, block.getAttribute("tabindex")], ["prose-formula", "0"]);
});

test("a long amount is told from a formula in a time that grows with its length", () => {
  const amount = `$1 ${"a ".repeat(40_000)}`;
  const begun = performance.now();
  assert.equal(prose(`${amount}_$`)[0].children[0].className, "prose-math");
  assert.equal(set(`${amount}b$`), `<p>${amount}b$</p>`);
  assert.ok(performance.now() - begun < 500);
});

test("a claim about a part of a formula marks all of it, and chips stand behind it", () => {
  const element = new Element("div");
  new ProseView(element).show("So $a = 84$ ends.", marks([{ at: 11, numbers: [1] }], [{ start: 8, end: 10 }]), false);
  assert.equal(element.toString().replaceAll("\u202f", ""), "<div><p>So <u>0:<span>$a = 84$</span></u><i>1</i> ends.</p></div>");
});

test("the words of a text are told without its Markdown", () => {
  assert.equal(plainText("# A\n- **b** [c](d)\n\n| e |\n|---|\n| f |"), "A b c e f");
});

const marks = (chips, claims = []) => ({
  chips,
  claims,
  chip: (number) => Object.assign(new Element("i"), { textContent: String(number) }),
  claim: (index, text) => Object.assign(new Element("u"), { textContent: `${index}:${text}` }),
});
const marked = (text, chips, claims) => prose(text, marks(chips.map(([at, ...numbers]) => ({ at, numbers })), claims)).join("").replaceAll("\u202f", "");

test("chips and claims stand in their places, in any block", () => {
  assert.equal(marked("It **rose**. It fell.", [[11, 1, 2], [20, 3]]), "<p>It <strong>rose</strong><i>1</i><i>2</i>. It fell<i>3</i>.</p>");
  assert.equal(marked("- a\n- b", [[3, 1], [7, 2]]), "<ul><li>a<i>1</i></li><li>b<i>2</i></li></ul>");
  assert.equal(marked("```\nx\n```", [[9, 1]]), "<div><pre><code>x</code></pre><p><i>1</i></p></div>");
  const table = "| a | b |\n|---|---|\n| c | d |\n| e | f |";
  assert.match(marked(table, [[27, 1], [37, 2]]), /<td>d<i>1<\/i><\/td>.*<td>f<i>2<\/i><\/td>/);
  assert.equal(marked("It *rose* &amp; fell", [], [{ start: 4, end: 16 }]), "<p>It <em><u>0:rose</u></em><u>0: </u><u>0:&</u><u>0: f</u>ell</p>".replace("<u>0: f</u>ell", "<u>0: </u>fell"));
  assert.equal(marked("😀 rose", [[7, 1]], [{ start: 3, end: 7 }]), "<p>😀 <u>0:rose</u><i>1</i></p>");
});

test("a single line is no list, quotation or heading", () => {
  for (const text of ["- 5 %", "> 100 mg", "+ 3", "# 4"]) assert.equal(set(text), `<p>${text}</p>`);
  assert.equal(set("\n- **5** %\n"), "<p>- <strong>5</strong> %</p>");
});

test("a quote has no Markdown, and keeps its lines, chips and claims", () => {
  const element = new Element("div");
  const text = "# **a**\n- b\n\n\n> c";
  const places = marks([{ at: 7, numbers: [1] }, { at: 17, numbers: [2] }], [{ start: 8, end: 11 }]);
  new ProseView(element).show(text, places, false, true);
  assert.equal(element.toString().replaceAll("\u202f", ""), "<div><p># **a**<i>1</i><br></br><u>0:- b</u></p><p>> c<i>2</i></p></div>");
});

test("what is drawn anew keeps the nodes that it had", () => {
  const element = new Element("div");
  const view = new ProseView(element);
  const none = marks([]);
  view.show("First.\n\nThe ferry **carr", none, true);
  const [first, second] = element.children;
  const [text, strong] = second.children;
  assert.equal(element.toString(), "<div><p>First.</p><p>The ferry <strong>carr</strong></p></div>");
  view.show("First.\n\nThe ferry **carried** 48,200.\n\n| a", none, true);
  assert.deepEqual([element.children[0] === first, second.children[0] === text, second.children[1] === strong], [true, true, true]);
  assert.match(element.toString(), /<strong>carried<\/strong> 48,200\.<\/p>.*<th>a<\/th>/);
  const end = "First.\n\nThe ferry **carried** 48,200.";
  view.show(end, marks([{ at: 36, numbers: [1] }, { at: 5, numbers: [2] }].reverse()), false);
  assert.equal(element.toString().replaceAll("\u202f", ""), "<div><p>First<i>2</i>.</p><p>The ferry <strong>carried</strong> 48,200<i>1</i>.</p></div>");
  assert.deepEqual([element.children[0] === first, second.children[0] === text], [true, true]);
});

test("no text takes long", () => {
  for (const part of ["*", "|", "[", ">", "**a", "| ", "`", "- ", "**a** ", "#", "\n\n", "[a](", "$a ", "\\[\n", "<", "~", "| a |\n|---|\n", "- a\n", "  ", "a* ", "![", "&"]) {
    const before = process.cpuUsage();
    set(part.repeat(100_000 / part.length));
    assert.ok(process.cpuUsage(before).user < 10_000_000, part); // microseconds of processor time
  }
});

test("questions to go on with are three at most, and none that was asked", async () => {
  const { chooseNext } = await import("./js/run/next-questions.js");
  const found = ["What was the income in 2024?", "How many cars are listed for Fulmar?", "What was the income in 2024", "What is the length of Fulmar?", "赫塞尔港的首班是几点？", "What is the fare?"].map((text) => ({ text, document: "", name: "" }));
  assert.deepEqual(chooseNext(found, ["How many cars are listed for Fulmar in all?"]).map(({ text }) => text), ["What was the income in 2024?", "What is the length of Fulmar?", "赫塞尔港的首班是几点？"]);
  assert.deepEqual(chooseNext([], ["x"]), []);
});
