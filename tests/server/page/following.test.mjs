/** What the page follows on the server: runs until they end, whatever its list shows, and uploads until each has ended. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { install } from "./dom.mjs";

install();
Object.assign(globalThis, { window: new EventTarget() });
Object.assign(document, { addEventListener() {}, hidden: false });
globalThis.setTimeout = ((wait) => (call, pause) => wait(call, Math.min(pause, 5)))(globalThis.setTimeout);

/** Answers of the server by path: a status, an object, or a promise of one. */
let answers = {};
globalThis.fetch = async (path) => {
  const answer = await (answers[path.split("?")[0]] ?? 404);
  if (answer === 0) throw new TypeError("no answer");
  return typeof answer === "number" ? new Response("{}", { status: answer }) : Response.json(answer);
};

const { PastRuns } = await import("./js/past-runs.js");
const { Uploads } = await import("./js/uploads.js");

const LIST = { runs: [], people: 0, programs: 0, owners: [], more: false, next: "", pinned: 0 };
const SESSION = { user: "", admin: true, has_users: false, needed: false };
const run = (id, more = {}) => ({ id, session: id, question: "", state: "running", started: 1, via: "api", owner: "", agent: "", collection: null, ...more });

const until = async (holds) => {
  for (let turn = 0; turn < 2_000 && !holds(); turn++) await new Promise((resolve) => setTimeout(resolve, 1));
  assert.ok(holds());
};

test("a run that the list leaves out is seen to end, and one that is gone is forgotten", async () => {
  answers = { "runs": LIST, "runs/a": run("a", { state: "finished" }), "runs/c": 503 };
  const runs = new PastRuns(SESSION, { changed() {}, away() {} });
  runs.view = { ...runs.view, text: "other words" };
  for (const id of ["a", "b", "c"]) runs.put(run(id));
  await runs.refresh();
  runs.stop();
  assert.deepEqual(runs.list.map(({ id, state }) => [id, state]), [["a", "finished"], ["c", "running"]]);
});

test("a run that the list brings is not asked for by itself", async () => {
  answers = { "runs": { ...LIST, runs: [run("a", { state: "finished" })] }, "runs/a": 404 };
  const runs = new PastRuns(SESSION, { changed() {}, away() {} });
  runs.put(run("a"));
  await runs.refresh();
  runs.stop();
  assert.equal(runs.find("a").state, "finished");
});

test("a list that was asked for before a change does not undo it", async () => {
  const [before, after] = ["Fares", "Prices"].map((title) => run("a", { state: "finished", title }));
  const changes = { Prices: (runs) => runs.change("a", { title: "Prices" }), nothing: (runs) => runs.remove(before) };
  for (const [title, change] of Object.entries(changes)) {
    let arrive;
    answers = { "runs": new Promise((resolve) => (arrive = resolve)) };
    const runs = new PastRuns(SESSION, { changed() {}, away() {} });
    runs.put(before);
    const refreshed = runs.refresh();
    answers = { "runs": { ...LIST, runs: title === "Prices" ? [after] : [] }, "runs/a": after };
    await change(runs);
    arrive({ ...LIST, runs: [before] });
    await refreshed;
    runs.stop();
    assert.equal(runs.find("a")?.title ?? "nothing", title);
  }
});

const job = (id, state) => ({ id, file: id, collection: "x", state, size: 1, done: 0, total: null, message: "", problems: [] });

test("an upload that the server forgot ends alone, and a server that is busy is asked again", async () => {
  const ids = ["gone", "busy", "ready"];
  answers = { "collections/x/jobs": { jobs: ids.map((id) => job(id, "running")) } };
  const ended = [];
  const uploads = new Uploads({ upload_bytes: 1, upload_types: [] }, { changed() {}, finished: ({ file, state }) => ended.push(`${file} ${state}`) });
  await uploads.adopt("x");
  answers = { "collections/x/jobs": { jobs: [] }, "jobs/busy": 429, "jobs/ready": job("ready", "finished") };
  await until(() => ended.length === 2);
  assert.deepEqual(ended, ["gone failed", "ready finished"]);
  for (const status of [503, 504, 0]) {
    answers = { ...answers, "jobs/busy": status };
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  answers = { "collections/x/jobs": 503 };
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(uploads.active.length, 1);
  answers = { "collections/x/jobs": { jobs: [] }, "jobs/busy": job("busy", "finished") };
  await until(() => ended.length === 3);
  assert.equal(ended[2], "busy finished");
});
