/**
 * Elements without markup: whatever documents, models and people wrote enters as a text node.
 * Nothing here takes HTML, and no attribute can become a script.
 */

import { SHAPES } from "./icons.js";

const SVG = "http://www.w3.org/2000/svg";

/** Set as properties, since their attributes only give a first value. */
const PROPERTIES = new Set(["value", "checked", "indeterminate", "currentTime", "scrollTop"]);

/**
 * @typedef {Node | string | number | null | undefined | false | readonly any[]} Child An array holds more of them.
 * @typedef {Record<string, any>} Props
 *   `class`, `text`, `dataset: {}`, `style: {}` (through CSSOM), `on: {event: listener}`, `value` and `checked`
 *   as properties; any other name is an attribute. true sets it, false and null leave it out, except
 *   for `aria-…`, where booleans become words.
 */

/**
 * An HTML element.
 * @param {string} tag
 * @param {Props | Child} [props] May be left out: what is no plain object is the first child.
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  return /** @type {HTMLElement} */ (build(document.createElement(tag), props, children));
}

/**
 * An SVG element. The same arguments as `h`.
 * @param {string} tag
 * @param {Props | Child} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function s(tag, props, ...children) {
  return /** @type {SVGElement} */ (build(document.createElementNS(SVG, tag), props, children));
}

/**
 * Puts these children in the place of those that an element has.
 * @template {Element} E
 * @param {E} parent
 * @param {...Child} children
 * @returns {E}
 */
export function replace(parent, ...children) {
  parent.replaceChildren(...flat(children));
  return parent;
}

/**
 * As `replace`, for what is drawn again while somebody uses it: what has the focus there has it afterwards.
 * @template {Element} E
 * @param {E} parent
 * @param {...Child} children
 * @returns {E}
 */
export function redraw(parent, ...children) {
  keepFocus(parent, () => replace(parent, ...children));
  return parent;
}

/** Draws something: what has the focus there has it afterwards. @param {Element} parent @param {() => void} draw */
export function keepFocus(parent, draw) {
  const active = document.activeElement;
  const mark = active && parent.contains(active) ? selectorOf(active) : "";
  draw();
  if (mark && document.activeElement !== active) /** @type {HTMLElement | null} */ (parent.querySelector(mark))?.focus({ preventScroll: true });
}

/** @param {Element} element */
function selectorOf(element) {
  const name = ["id", "href", "aria-label"].find((attribute) => element.hasAttribute(attribute));
  return name ? `[${name}="${CSS.escape(element.getAttribute(name) ?? "")}"]` : "";
}

/** @type {WeakMap<Element, string>} */
const marks = new WeakMap();

/**
 * Shows a list and touches only what changed: an element stays as long as its mark does, so that no click is lost.
 * @template T
 * @param {Element} parent
 * @param {T[]} list
 * @param {(one: T) => string} markOf Tells two elements apart, and what one shows from what it showed.
 * @param {(one: T) => Element} build
 */
export function showList(parent, list, markOf, build) {
  const wanted = new Set(list.map(markOf));
  const standing = new Map();
  for (const child of [...parent.children]) {
    const mark = marks.get(child) ?? "";
    if (wanted.has(mark)) standing.set(mark, child);
    else child.remove();
  }
  /** @type {Element | null} */
  let next = parent.firstElementChild;
  for (const one of list) {
    const mark = markOf(one);
    const child = standing.get(mark) ?? build(one);
    marks.set(child, mark);
    if (next && child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

/**
 * A drawn sign, hidden from screen readers: what stands beside it or names its button tells the same.
 * @param {keyof typeof SHAPES} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const shapes = SHAPES[name] ?? SHAPES.dot;
  const props = { class: `icon icon-${name}`, viewBox: "0 0 24 24", "aria-hidden": true, focusable: "false" };
  return s("svg", props, shapes.map(([tag, attributes]) => s(tag, attributes)));
}

/**
 * A button that shows only a sign; `label` is its name and its tip.
 * @param {keyof typeof SHAPES} name
 * @param {string} label
 * @param {Props} [props]
 */
export function iconButton(name, label, props = {}) {
  const { class: more = "", ...rest } = props;
  return h("button", { type: "button", class: `quiet square ${more}`, title: label, "aria-label": label, ...rest }, icon(name));
}

/**
 * @param {Element} element
 * @param {Props | Child | undefined} props
 * @param {Child[]} children
 */
function build(element, props, children) {
  if (isProps(props)) {
    for (const [name, value] of Object.entries(props)) set(element, name, value);
  } else {
    children = [props, ...children];
  }
  element.append(...flat(children));
  return element;
}

/** @param {unknown} value @returns {value is Props} */
function isProps(value) {
  return typeof value === "object" && value !== null && !(value instanceof Node) && !Array.isArray(value);
}

/** @param {Element} element @param {string} name @param {any} value */
function set(element, name, value) {
  if (value === undefined) return;
  if (name === "text") element.textContent = value;
  else if (name === "dataset") Object.assign(/** @type {HTMLElement} */ (element).dataset, value);
  else if (name === "style") setStyle(/** @type {HTMLElement} */ (element).style, value);
  else if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
  else if (PROPERTIES.has(name) && name in element) /** @type {any} */ (element)[name] = value;
  else setAttribute(element, name, value);
}

/** @param {CSSStyleDeclaration} style @param {Record<string, string>} values */
function setStyle(style, values) {
  for (const [name, value] of Object.entries(values)) style.setProperty(name, value);
}

/** @param {Element} element @param {string} name @param {any} value */
function setAttribute(element, name, value) {
  if (/^on/i.test(name)) throw new TypeError(`${name} is no attribute of this page: listeners go into on`);
  if (value === null) return;
  if (typeof value !== "boolean" || name.startsWith("aria-")) element.setAttribute(name, String(value));
  else if (value) element.setAttribute(name, "");
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function flat(children) {
  return /** @type {(Node | string)[]} */ (
    children.flat(Infinity).flatMap((child) => {
      if (child === null || child === undefined || child === false) return [];
      return [child instanceof Node ? child : String(child)];
    })
  );
}

/** @type {HTMLElement | null} */
let region = null;

/**
 * Tells screen readers something that happened, when they have finished what they say.
 * @param {string} text
 */
export function announce(text) {
  region ??= document.body.appendChild(h("div", { class: "hidden-text", role: "log", "aria-live": "polite", "aria-label": "Status messages" }));
  region.append(h("p", { text }));
  while (region.childElementCount > 5) region.firstElementChild?.remove();
}
