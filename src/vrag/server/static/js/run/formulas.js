/**
 * Formulas in LaTeX, set by KaTeX, which is loaded for the first answer that has one. What it does not know, and what could
 * do more than show a formula, stays as it was typed.
 */

/** @typedef {{attributes?: Record<string, string>, children?: readonly SetNode[], toNode: () => Node}} SetNode */
/** @typedef {{__renderToDomTree: (tex: string, options: object) => SetNode}} Katex */

const SIGNS = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"], ["$", "$"]];
/** Characters of a formula, sizes in em and expansions of macros in it, at most. */
const [MOST_CHARS, MOST_SIZE, MOST_EXPANDED] = [2000, 10, 200];

/** @type {Katex | null} */
let katex = null;
/** @type {Promise<void> | null} */
let loading = null;

/**
 * A formula with its signs, such as `$x$`, in parts.
 * @param {string} typed
 * @returns {{tex: string, display: boolean} | null} `display`: in a line of its own.
 */
export function partsOf(typed) {
  const text = typed.trim();
  const signs = SIGNS.find(([begin]) => text.startsWith(begin));
  if (!signs || !text.endsWith(signs[1]) || text.length <= signs[0].length + signs[1].length || text.length > MOST_CHARS) return null;
  return { tex: text.slice(signs[0].length, -signs[1].length).trim(), display: signs[0] === "$$" || signs[0] === "\\[" };
}

/**
 * Shows the formula that an element holds as it was typed, now or as soon as KaTeX is there.
 * @param {HTMLElement} element With nothing but its text.
 */
export function setFormula(element) {
  if (partsOf(element.textContent ?? "") === null) return;
  element.dataset.formula = element.textContent ?? "";
  if (katex) draw(element);
  else loading ??= load();
}

/** Draws the formulas that wait for it. */
async function load() {
  try {
    const folder = new URL("vendor/katex/", import.meta.url); // the scripts of the page are joined beside it
    const style = document.createElement("link");
    style.rel = "stylesheet";
    style.href = new URL("katex.min.css", folder).href;
    const styled = new Promise((done, failed) => { style.addEventListener("load", done); style.addEventListener("error", failed); });
    document.head.append(style);
    const script = new URL("katex.min.js", folder).href;
    await Promise.all([import(script), styled]);
    katex = /** @type {{katex?: Katex}} */ (globalThis).katex ?? null;
  } catch {
    loading = null; // the next answer tries again; until then they stand as they were typed
    return;
  }
  for (const element of document.querySelectorAll("[data-formula]")) draw(/** @type {HTMLElement} */ (element));
}

/** @param {HTMLElement} element */
function draw(element) {
  const parts = partsOf(element.dataset.formula ?? "");
  if (!katex || !parts || element.querySelector(".katex")) return;
  try {
    const tree = katex.__renderToDomTree(parts.tex, { displayMode: parts.display, throwOnError: true, strict: "ignore", trust: refuse, maxSize: MOST_SIZE, maxExpand: MOST_EXPANDED });
    dropStyles(tree);
    element.replaceChildren(tree.toNode());
    element.title = element.dataset.formula ?? "";
  } catch {
    delete element.dataset.formula; // it is no LaTeX, or not for us
  }
}

/** Links, pictures and classes: nothing of an answer may have them. @returns {never} */
function refuse() {
  throw new Error("Formulas of answers are not trusted.");
}

/** The policy of the page allows no attribute `style`; what a browser draws has its styles otherwise. @param {SetNode} node */
function dropStyles(node) {
  delete node.attributes?.style;
  node.children?.forEach(dropStyles);
}
