/** What can be done with a conversation in the list: rename, pin, share, copy its link, export, delete. */

import { dialog, h, toast } from "./dom.js";
import { count } from "./format.js";
import { isUnderWay } from "./history.js";
import { openMenu } from "./menu.js";
import { attempt } from "./overlays.js";
import { report } from "./report.js";
import { here, navigate } from "./router.js";
import { copyLink, setShared } from "./share.js";

/** @typedef {import("./history.js").Conversation} Conversation */
/** @typedef {import("./past-runs.js").PastRuns} PastRuns */

/**
 * @param {Conversation} talk
 * @param {HTMLElement} button
 * @param {PastRuns} runs
 * @param {() => void} drawAgain
 */
export function openActions(talk, button, runs, drawAgain) {
  const last = talk.runs[talk.runs.length - 1];
  const { pinned, shared } = last;
  openMenu(button, `“${talk.title.slice(0, 100)}”`, [
    { label: "Rename", sign: "edit", run: () => rename(talk, runs, drawAgain) },
    { label: pinned ? "Unpin" : "Pin", sign: "pin", run: () => attempt(() => runs.change(last.id, { pinned: !pinned })) },
    ...(runs.session.has_users ? [{ label: shared ? "Stop sharing" : "Share", sign: "share", run: () => setShared(last, runs, !shared) }] : []),
    { label: "Copy link", sign: "link", run: () => copyLink(last, runs) },
    { label: "Export", sign: "report", run: () => exportAll(last, runs) },
    { label: "Delete", sign: "trash", danger: true, run: () => remove(last, talk.title, runs) },
  ]);
}

/** Puts a field in the place of an entry of the list; Enter keeps what it holds, Escape leaves it.
 * @param {Conversation} talk @param {PastRuns} runs @param {() => void} drawAgain */
function rename(talk, runs, drawAgain) {
  const row = document.querySelector(`[data-session="${CSS.escape(talk.session)}"] .entry-row`);
  if (!row) return;
  const field = /** @type {HTMLInputElement} */ (h("input", { id: "rename", maxlength: 200, dir: "auto", value: talk.title.slice(0, 200), "aria-label": "Title of the conversation" }));
  const before = [...row.children];
  let over = false;
  const end = async (/** @type {boolean} */ keep) => {
    if (over) return;
    over = true;
    const title = field.value.trim();
    const hadFocus = document.activeElement === field;
    row.replaceChildren(...before);
    if (keep && title !== talk.title) await attempt(() => runs.change(talk.runs[0].id, { title }));
    drawAgain();
    if (hadFocus) document.getElementById(`more-${talk.session}`)?.focus();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation(); // Escape leaves the field and nothing else
    end(event.key === "Enter");
  });
  field.addEventListener("blur", () => end(true));
  row.replaceChildren(field);
  field.focus();
  field.setSelectionRange(0, field.value.length, "backward"); // so that its start is seen
}

/** @param {import("./history.js").Run} run @param {PastRuns} runs */
async function exportAll(run, runs) {
  await runs.loadSession(run.session);
  await report(runs.turns(run.session));
}

/** @param {import("./history.js").Run} run @param {string} title @param {PastRuns} runs */
async function remove(run, title, runs) {
  await runs.loadSession(run.session);
  const turns = runs.turns(run.session);
  const running = turns.some(isUnderWay);
  const what = turns.length === 1 ? "The question, its answer and its pictures are" : `Its ${count(turns.length, "question")}, their answers and pictures are`;
  const body = h("div", { class: "report-form" }, h("p", { class: "quoted", dir: "auto", text: title.slice(0, 300) }), h("p", { text: `${running ? "It is still running and is stopped. " : ""}${what} deleted from the server. This cannot be undone.` }));
  const sure = await dialog({ title: "Delete this conversation?", body, actions: [{ label: "Cancel" }, { label: "Delete", kind: "danger", value: true }] });
  if (!sure || !(await attempt(() => runs.remove(run)))) return;
  toast("Deleted.", { kind: "ok" });
  const route = here();
  if (route.name === "run" && turns.some((turn) => turn.id === route.id)) navigate("#/");
  document.getElementById("past-runs")?.focus();
}
