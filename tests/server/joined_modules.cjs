/*
 * Compares joined scripts with their modules: `node --expose-internals joined_modules.cjs FOLDER SCRIPT...`.
 * Writes the paths of the modules, in their order. The parser is the one that Node.js itself uses.
 */
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { parse } = require("internal/deps/acorn/acorn/dist/acorn");

const [folder, ...scripts] = process.argv.slice(2);

const scriptName = (file) => file.replaceAll("/", "-");

/** A tree without places; `target` names what is imported when it is needed. */
function tree(text, target) {
  const plain = (node) => {
    if (Array.isArray(node)) return node.map(plain);
    if (typeof node === "bigint" || node instanceof RegExp) return String(node);
    if (typeof node !== "object" || node === null) return node;
    if (node.type === "ImportExpression" && node.source.type === "Literal") return { type: node.type, source: target(node.source.value) };
    return Object.fromEntries(Object.entries(node).filter(([key]) => key !== "start" && key !== "end").map(([key, value]) => [key, plain(value)]));
  };
  return plain(parse(text, { ecmaVersion: "latest", sourceType: "module" }).body);
}

const constant = (file) => `$${file.replace(/\.js$/, "").replaceAll("/", "$").replace(/[^\w$]/g, "_")}`;

/** What becomes of the statements of a module: imports and exports, and the others. */
function parts(file) {
  const found = { imported: [], exported: [], rest: [] };
  const inFolder = (name) => path.posix.join(path.posix.dirname(file), name);
  for (const node of tree(fs.readFileSync(path.join(folder, file), "utf-8"), (name) => `./${scriptName(inFolder(name))}`)) {
    const source = node.source && constant(inFolder(node.source.value));
    if (node.type === "ImportDeclaration") {
      for (const one of node.specifiers) found.imported.push(`${source}.${one.imported.name} as ${one.local.name}`);
    } else if (node.type === "ExportNamedDeclaration" && node.declaration) {
      found.rest.push(node.declaration);
      found.exported.push(...(node.declaration.declarations ?? [node.declaration]).map(({ id }) => `${id.name} as ${id.name}`));
    } else if (node.type === "ExportNamedDeclaration") {
      for (const one of node.specifiers) {
        const local = source ? `${source}_${one.local.name}` : one.local.name;
        if (source) found.imported.push(`${source}.${one.local.name} as ${local}`);
        found.exported.push(`${local} as ${one.exported.name}`);
      }
    } else {
      assert(!node.type.startsWith("Export"), `${file}: ${node.type}`);
      found.rest.push(node);
    }
  }
  return found;
}

/** The same of a function in the joined script, and of what it is called with. */
function joinedParts({ callee, arguments: given }) {
  const found = { imported: [], exported: [], rest: callee.body.body };
  const last = found.rest.pop();
  assert.equal(last.type, "ReturnStatement");
  for (const { key, value } of last.argument.properties) found.exported.push(`${value.name} as ${key.name}`);
  assert.equal(callee.params.length, given.length);
  for (const [at, { properties }] of callee.params.entries()) {
    for (const { key, value } of properties) found.imported.push(`${given[at].name}.${key.name} as ${value.name}`);
  }
  return found;
}

const files = new Map(fs.readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(".js")).map((file) => [constant(file), file]));
const modules = [];
const isScript = (name) => (assert(scripts.some((script) => `./${path.basename(script)}` === name), name), name);
const shared = { from: new Set(), to: new Set() };
for (const script of scripts) {
  for (const statement of tree(fs.readFileSync(script, "utf-8"), isScript)) {
    if (statement.type === "ImportDeclaration") {
      assert.equal(statement.source.value, "./app.js");
      for (const { local, imported } of statement.specifiers) {
        assert.equal(local.name, imported.name);
        shared.to.add(local.name);
      }
      continue;
    }
    if (statement.type === "ExportNamedDeclaration" && !statement.declaration) {
      for (const { local } of statement.specifiers) shared.from.add(local.name);
      continue;
    }
    if (statement.type === "ExportNamedDeclaration") {
      const [{ id, init }] = statement.declaration.declarations;
      const exported = id.properties.map(({ key }) => key.name).sort();
      assert.deepEqual(exported, parts(files.get(init.name)).exported.map((names) => names.split(" ").at(-1)).sort());
      continue;
    }
    const [{ id, init }] = statement.declarations;
    assert.equal(init.callee.type, "ArrowFunctionExpression");
    assert.equal(init.callee.async, false);
    const file = files.get(id.name);
    const expected = parts(file);
    const found = joinedParts(init);
    assert.deepEqual(found.imported.sort(), expected.imported.sort(), file);
    assert.deepEqual(found.exported.sort(), expected.exported.sort(), file);
    assert.deepEqual(found.rest, expected.rest, file);
    modules.push(file);
  }
}
assert.deepEqual([...shared.from].sort(), [...shared.to].sort());
console.log(JSON.stringify(modules));
