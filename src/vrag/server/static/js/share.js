/** Sharing a conversation with the other users of the server, and copying its link. */

import { Problem } from "./api.js";
import { dialog, h, toast } from "./dom.js";
import { runHash } from "./router.js";

/** @typedef {import("./history.js").Run} Run */
/** @typedef {import("./past-runs.js").PastRuns} PastRuns */

/**
 * Copies the address of a run. Where others cannot open it, it offers to share the conversation.
 * @param {Run} run
 * @param {PastRuns} runs
 * @param {string} [url]
 */
export async function copyLink(run, runs, url = new URL(runHash(run.id), location.href).href) {
  const { session } = runs;
  const mayShare = session.has_users && runs.mayChange(run);
  if (mayShare && !run.shared) {
    const body = "Only you and administrators can open this link. Share the conversation, so that every user of this server who has the link can read it? You can stop sharing at any time.";
    const actions = [{ label: "Copy only", value: "copy" }, { label: "Share and copy", kind: /** @type {const} */ ("primary"), value: "share" }];
    const chosen = await dialog({ title: "Share this conversation?", body, actions });
    if (chosen === null || (chosen === "share" && !(await setShared(run, runs, true, false)))) return;
    run = runs.find(run.id) ?? run;
  }
  const readers = session.has_users ? "Every user of this server can open it." : session.needed ? "Whoever can sign in to this server can open it." : "Anyone who can reach this server can open it.";
  const hint = session.has_users && !run.shared ? "Only you and administrators can open it." : readers;
  try {
    await navigator.clipboard.writeText(url);
    const action = mayShare && run.shared ? { label: "Stop sharing", run: () => setShared(run, runs, false) } : undefined;
    toast("Link copied.", { kind: "ok", hint, action });
  } catch {
    const field = h("input", { readonly: true, value: url, "aria-label": "Link to this question", on: { focus: (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).select() } });
    await dialog({ title: "Link to this question", body: field });
  }
}

/**
 * @param {Run} run
 * @param {PastRuns} runs
 * @param {boolean} shared
 * @param {boolean} [showSuccess] Whether a message tells of success, too.
 * @returns {Promise<boolean>} Whether it is as wanted.
 */
export async function setShared(run, runs, shared, showSuccess = true) {
  try {
    await runs.change(run.id, { shared });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    toast(shared ? "The conversation could not be shared." : "The conversation is still shared.", { kind: "danger", hint: error.detail });
    return false;
  }
  if (showSuccess) toast(shared ? "Shared: every user of this server who has the link can read it." : "Not shared any more.", { kind: "ok" });
  return true;
}
