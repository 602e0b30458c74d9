/** The uploads of a collection: each with its state, and all together. */

import { announce, h, icon, iconButton, replace, showList } from "../dom.js";
import { pickedFiles } from "../dropped-files.js";
import { count } from "../format.js";
import { attempt } from "../overlays.js";
import { hasEnded, overall, statusText } from "../uploads.js";
import { problemList } from "./rows.js";

/** @typedef {import("../uploads.js").Upload} Upload */

/**
 * @param {import("../uploads.js").Uploads} uploads
 * @param {() => {name: string, writable: boolean} | undefined} collection
 * @param {() => void} cancelled Called after uploads were cancelled.
 * @returns {{element: HTMLElement, update: () => void}}
 */
export function uploadList(uploads, collection, cancelled) {
  const summary = h("span", { class: "grow", id: "uploads-summary" });
  const bar = h("progress", { max: 1, "aria-label": "All uploads" });
  const cancelAll = h("button", { type: "button", class: "quiet", id: "cancel-uploads", text: "Cancel all", on: { click: () => cancel(own().filter((one) => !hasEnded(one))) } });
  const clear = h("button", { type: "button", class: "quiet", text: "Clear list", on: { click: () => own().filter(hasEnded).forEach((one) => uploads.dismiss(one)) } });
  const list = h("ul", { class: "jobs", id: "jobs", "aria-label": "Uploads" });
  const element = h("section", { class: "uploads card", "aria-label": "Uploads", hidden: true }, h("header", { class: "uploads-head" }, summary, cancelAll, clear), bar, list);

  const own = () => uploads.list.filter((upload) => upload.collection === collection()?.name);
  const cancel = (/** @type {Upload[]} */ those) =>
    attempt(async () => {
      await Promise.all(those.map((upload) => uploads.cancel(upload)));
      announce(those.length === 1 ? `${those[0].file} cancelled` : `${those.length} uploads cancelled`);
      cancelled();
    });
  const update = () => {
    const shown = own();
    const writable = Boolean(collection()?.writable);
    const { ended, share } = overall(shown);
    element.hidden = shown.length === 0;
    summary.textContent = ended < shown.length ? `${ended} of ${count(shown.length, "file")} done` : count(shown.length, "file");
    /** @type {HTMLProgressElement} */ (bar).value = share;
    bar.hidden = shown.length < 2 || ended === shown.length;
    cancelAll.hidden = !writable || shown.length - ended < 2;
    clear.hidden = ended === 0 || ended < shown.length;
    showList(list, shown, (upload) => JSON.stringify([upload.key, upload.file]), (upload) => uploadRow(upload, { cancel: () => cancel([upload]), dismiss: () => uploads.dismiss(upload), retry: () => attempt(() => uploads.retry(upload)) }));
    shown.forEach((upload, at) => fill(/** @type {HTMLElement} */ (list.children[at]), upload, { retry: writable && uploads.canRetry(upload), cancel: writable }));
  };
  return { element, update };
}

/** @param {Upload} upload @param {{cancel: () => void, dismiss: () => void, retry: () => void}} act */
function uploadRow(upload, { cancel, dismiss, retry }) {
  return h(
    "li",
    { class: "job", dataset: { file: upload.file } },
    h("span", { class: "job-sign" }),
    h("div", { class: "grow" }, h("p", { class: "job-name", dir: "auto", text: upload.file }), h("p", { class: "job-doing size-2", dir: "auto" }), h("div", { class: "job-problems" })),
    h("button", { type: "button", class: "job-retry", "aria-label": `Try ${upload.file} again`, text: "Try again", on: { click: retry } }),
    iconButton("close", `Cancel ${upload.file}`, { class: "job-cancel", on: { click: cancel } }),
    iconButton("close", `Dismiss ${upload.file}`, { class: "job-dismiss", on: { click: dismiss } }),
    h("progress", { "aria-label": `${upload.file}: progress` }),
  );
}

/** @param {HTMLElement} row Changed in place: what has the focus keeps it. @param {Upload} upload @param {{retry: boolean, cancel: boolean}} may */
function fill(row, upload, may) {
  const ended = hasEnded(upload);
  const problems = upload.problems.filter((problem) => problem !== upload.message);
  const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (row.querySelector(name));
  const bar = /** @type {HTMLProgressElement} */ (part("progress"));
  if (row.dataset.state !== upload.state) {
    row.dataset.state = upload.state;
    replace(part(".job-sign"), ended ? icon(upload.state === "failed" ? "warn" : "check") : h("span", { class: "spinner" }));
    replace(part(".job-problems"), problems.length > 0 && problemList(problems));
  }
  part(".job-doing").textContent = statusText(upload);
  part(".job-retry").hidden = !may.retry;
  part(".job-cancel").hidden = ended || !may.cancel;
  part(".job-dismiss").hidden = !ended;
  bar.hidden = upload.state !== "sending" && upload.state !== "running";
  if (upload.total) Object.assign(bar, { max: upload.total, value: upload.done });
  else bar.removeAttribute("value");
}

/**
 * Buttons that open the file dialog and upload what is chosen.
 * @param {import("../uploads.js").Uploads} uploads
 * @param {string} collection
 */
export function uploadButtons(uploads, collection) {
  return [
    picker("upload-files", { accept: uploads.limits.upload_types.join(",") }, { id: "upload", class: "primary" }, [icon("upload"), "Upload files"], (files) => uploads.add(files, collection)),
    picker("upload-folder-files", { webkitdirectory: true }, { id: "upload-folder", class: "folder-button" }, [icon("folder"), "Upload a folder"], (files) => uploads.add(files, collection)),
  ];
}

/**
 * @param {string} id
 * @param {Record<string, unknown>} how
 * @param {Record<string, unknown>} button
 * @param {any[]} label
 * @param {(files: import("../dropped-files.js").PlacedFile[]) => void} take
 */
function picker(id, how, button, label, take) {
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "file", id, multiple: true, hidden: true, ...how }));
  input.addEventListener("change", () => {
    take(pickedFiles(input.files ?? []));
    input.value = "";
  });
  return [input, h("button", { type: "button", ...button, on: { click: () => input.click() } }, label)];
}
