/** Files on their way into a collection: sent one after another, then followed while the server reads them. */

import { get, Problem, put } from "./api.js";
import { bytes } from "./pictures.js";

const POLL = 1_000;
const LINGER = 8_000;

/**
 * @typedef {object} Upload
 * @property {number} key Tells it from another of the same file.
 * @property {string} file
 * @property {string} collection
 * @property {"queued" | "sending" | "waiting" | "running" | "finished" | "failed"} state
 * @property {number} done Bytes while it is sent, pages while it is read.
 * @property {number | null} total
 * @property {string} message
 * @property {string[]} problems
 * @property {string | null} [id] The server's job, once it has one.
 */

export class Uploads {
  /** @type {Upload[]} */
  list = [];
  /** @type {{file: File, upload: Upload}[]} */
  #queue = [];
  #sending = false;
  #count = 0;

  /**
   * @param {{upload_bytes: number, upload_types: string[]}} limits
   * @param {{changed: () => void, finished: (upload: Upload) => void}} calls
   */
  constructor(limits, { changed, finished }) {
    this.limits = limits;
    this.changed = changed;
    this.finished = finished;
  }

  get active() {
    return this.list.filter((upload) => upload.state !== "finished" && upload.state !== "failed");
  }

  /** @param {Iterable<File>} files @param {string} collection */
  add(files, collection) {
    for (const file of files) {
      const fault = this.fault(file);
      /** @type {Upload} */
      const upload = { key: this.#count++, file: file.name, collection, state: fault ? "failed" : "queued", done: 0, total: file.size, message: fault, problems: [] };
      this.list.unshift(upload);
      if (!fault) this.#queue.push({ file, upload });
    }
    this.changed();
    this.#next();
  }

  /** @param {Upload} upload Takes one that ended off the list. */
  dismiss(upload) {
    this.list = this.list.filter((other) => other !== upload);
    this.changed();
  }

  /** @param {string} collection Takes up what others, or an earlier visit, sent there. */
  async adopt(collection) {
    const { jobs } = await get(`/collections/${encodeURIComponent(collection)}/jobs`);
    for (const job of jobs) {
      if (this.list.some((upload) => upload.id === job.id) || job.state === "finished") continue;
      const upload = { ...job, key: this.#count++ };
      this.list.push(upload);
      if (job.state !== "failed") this.#follow(upload);
    }
    this.changed();
  }

  /** @param {{name: string, size: number}} file @returns {string} Why the server would refuse it; empty when it would not. */
  fault(file) {
    const types = this.limits.upload_types;
    const name = file.name.toLowerCase();
    if (!types.some((type) => name.endsWith(type))) return `This file type is not supported. Supported: ${kinds(types)}.`;
    if (file.size > this.limits.upload_bytes) return `The file has ${bytes(file.size)}; the maximum is ${bytes(this.limits.upload_bytes)}.`;
    return file.size === 0 ? "The file is empty." : "";
  }

  async #next() {
    if (this.#sending) return;
    const next = this.#queue.shift();
    if (!next) return;
    this.#sending = true;
    try {
      await this.#send(next.file, next.upload);
    } finally {
      this.#sending = false;
      this.#next();
    }
  }

  /** @param {File} file @param {Upload} upload */
  async #send(file, upload) {
    upload.state = "sending";
    const progress = (/** @type {number} */ done, /** @type {number} */ total) => {
      Object.assign(upload, { done, total });
      this.changed();
    };
    try {
      const path = `/collections/${encodeURIComponent(upload.collection)}/documents/${encodeURIComponent(file.name)}`;
      Object.assign(upload, await put(path, file, { progress }));
      this.#follow(upload);
    } catch (error) {
      this.#fail(upload, error);
    }
    this.changed();
  }

  /** @param {Upload} upload Asks after its job until it ended. */
  async #follow(upload) {
    while (upload.state === "waiting" || upload.state === "running") {
      await new Promise((resolve) => setTimeout(resolve, POLL));
      try {
        Object.assign(upload, await get(`/jobs/${encodeURIComponent(upload.id ?? "")}`));
      } catch (error) {
        if (error instanceof Problem && error.status === 0) continue;
        this.#fail(upload, error);
      }
      this.changed();
    }
    this.finished(upload);
    if (upload.state === "finished" && upload.problems.length === 0) setTimeout(() => this.dismiss(upload), LINGER);
  }

  /** @param {Upload} upload @param {unknown} error */
  #fail(upload, error) {
    if (!(error instanceof Problem)) throw error;
    Object.assign(upload, { state: "failed", message: `${error.detail} ${error.hint}`.trim() });
  }
}

/**
 * The state of an upload, in words.
 * @param {Upload} upload
 * @returns {string}
 */
export function statusText(upload) {
  const part = upload.total ? Math.min(100, Math.round((100 * upload.done) / upload.total)) : 0;
  if (upload.state === "queued") return "Queued";
  if (upload.state === "sending") return `Uploading, ${part} %`;
  if (upload.state === "waiting") return "Uploaded, waiting to be processed";
  if (upload.state === "running") return upload.total ? `Reading page ${Math.min(upload.done + 1, upload.total)} of ${upload.total}` : "Reading";
  if (upload.state === "finished") return upload.message || "Added";
  return upload.message || "The file could not be added.";
}

/** @type {[string, string[]][]} */
const FAMILIES = [
  ["PDF", ["pdf"]],
  ["Word, slides and sheets", ["doc", "docx", "odt", "rtf", "ppt", "pptx", "odp", "xls", "xlsx", "ods"]],
  ["pictures", ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"]],
  ["videos", ["mp4", "m4v", "mov", "mkv", "webm", "avi"]],
  ["web pages and text", ["htm", "html", "md", "markdown", "txt", "json", "jsonl", "ndjson"]],
];

/**
 * Kinds of files by their suffixes, in words; a suffix of no known kind as it is.
 * @param {string[]} suffixes
 * @returns {string}
 */
export function kinds(suffixes) {
  const bare = suffixes.map((suffix) => suffix.replace(/^\./, ""));
  const families = FAMILIES.filter(([, own]) => own.some((suffix) => bare.includes(suffix)));
  const known = new Set(families.flatMap(([, own]) => own));
  return [...families.map(([name]) => name), ...bare.filter((suffix) => !known.has(suffix))].join(", ");
}
