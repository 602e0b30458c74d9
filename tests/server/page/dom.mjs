/** As much of a document as the builders of elements ask for. */

class Node {
  constructor() {
    this.parent = null;
  }
  get nextSibling() {
    return this.parent?.children[this.parent.children.indexOf(this) + 1] ?? null;
  }
}

class Text extends Node {
  constructor(data) {
    super();
    this.data = data;
  }
  get length() {
    return this.data.length;
  }
  get textContent() {
    return this.data;
  }
  appendData(more) {
    this.data += more;
  }
  splitText(at) {
    const rest = new Text(this.data.slice(at));
    this.data = this.data.slice(0, at);
    this.parent.insertBefore(rest, this.nextSibling);
    return rest;
  }
  toString() {
    return this.data;
  }
}

class Element extends Node {
  constructor(tag) {
    super();
    this.tag = tag;
    this.children = [];
    this.dataset = {};
    this.given = new Map();
    this.style = { setProperty() {} };
  }
  get tagName() {
    return this.tag;
  }
  get className() {
    return this.given.get("class") ?? "";
  }
  get childNodes() {
    return this.children;
  }
  get firstChild() {
    return this.children[0] ?? null;
  }
  get attributes() {
    return [...this.given].map(([name, value]) => ({ name, value }));
  }
  hasAttribute(name) {
    return this.given.has(name);
  }
  getAttribute(name) {
    return this.given.get(name) ?? null;
  }
  setAttribute(name, value) {
    this.given.set(name, value);
  }
  removeAttribute(name) {
    this.given.delete(name);
  }
  append(...nodes) {
    for (const node of nodes) this.insertBefore(node instanceof Node ? node : new Text(node), null);
  }
  insertBefore(node, before) {
    node.parent?.removeChild(node);
    this.children.splice(before ? this.children.indexOf(before) : this.children.length, 0, node);
    node.parent = this;
  }
  removeChild(node) {
    this.children.splice(this.children.indexOf(node), 1);
    node.parent = null;
  }
  addEventListener() {}
  set textContent(text) {
    for (const node of [...this.children]) this.removeChild(node);
    this.append(text);
  }
  get textContent() {
    return this.children.map((child) => child.textContent).join("");
  }
  toString() {
    return `<${this.tag}>${this.children.join("")}</${this.tag}>`;
  }
}

export function install() {
  Object.assign(globalThis, { Node, Text, HTMLElement: Element, document: { createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag) } });
  return Element;
}
