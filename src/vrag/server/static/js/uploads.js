/** Files on their way into a collection: sent a few at a time, then followed while the server reads them. */

import { del, get, post, Problem, put } from "./api.js";
import { extentOf } from "./file-names.js";
import { ordinal } from "./format.js";
import { rewriteForPage } from "./messages.js";
import { bytes } from "./pictures.js";

const POLL = 1_000;
const LINGER = 8_000;
/** Files that are sent at one time; the last place is for small ones. */
const SENDERS = 3;
/** In bytes. */
const SMALL = 8 * 1024 * 1024;

/**
 * @typedef {object} Upload
 * @property {number} key Tells it from another of the same file.
 * @property {string} file
 * @property {string} collection
 * @property {"queued" | "sending" | "waiting" | "running" | "finished" | "failed" | "cancelled"} state
 * @property {number} size In bytes.
 * @property {number} done Bytes while it is sent, pages while it is read.
 * @property {number | null} total
 * @property {string} message
 * @property {string[]} problems
 * @property {string} [kind] What the server counts: pages, clips or passages.
 * @property {number | null} [place] Its place in the queue.
 * @property {string} [id] The server's job, once it has one.
 * @property {string} [document] Id of the document that it becomes.
 */

/** @param {Upload} upload @returns {boolean} Whether nothing more happens to it. */
export const hasEnded = ({ state }) => state === "finished" || state === "failed" || state === "cancelled";

export class Uploads {
  /** @type {Upload[]} */
  list = [];
  /** @type {Map<Upload, {file: File, path: string}>} What is sent, or can be sent again. */
  #sources = new Map();
  /** @type {Upload[]} */
  #queue = [];
  /** @type {Map<Upload, AbortController>} */
  #sending = new Map();
  #isPolling = false;
  #count = 0;

  /**
   * @param {{upload_bytes: number, upload_types: string[], unreadable?: {types: string[], needs: string, install: string}[]}} limits
   * @param {{changed: () => void, finished: (upload: Upload) => void, skipped?: (count: number) => void}} calls `skipped`: files in
   *   folders are left out that are of no type that can be read.
   */
  constructor(limits, { changed, finished, skipped = () => {} }) {
    this.limits = limits;
    this.changed = changed;
    this.finished = finished;
    this.skipped = skipped;
  }

  get active() {
    return this.list.filter((upload) => !hasEnded(upload));
  }

  /**
   * @param {import("./dropped-files.js").PlacedFile[]} files
   * @param {string} collection
   */
  add(files, collection) {
    let skipped = 0;
    for (const { file, folder } of files) {
      const fault = this.fault(file);
      if (folder && !this.limits.upload_types.some((type) => file.name.toLowerCase().endsWith(type))) {
        skipped += 1;
        continue;
      }
      /** @type {Upload} */
      const upload = { key: this.#count++, file: file.name, collection, state: fault ? "failed" : "queued", size: file.size, done: 0, total: file.size, message: fault, problems: [] };
      this.list.unshift(upload);
      if (fault) continue;
      this.#sources.set(upload, { file, path: folder ? `${folder}/${file.name}` : file.name });
      this.#queue.push(upload);
    }
    this.changed();
    this.#next();
    if (skipped > 0) this.skipped(skipped);
  }

  /** @param {Upload} upload Takes one that ended off the list. */
  dismiss(upload) {
    this.list = this.list.filter((other) => other !== upload);
    this.#sources.delete(upload);
    this.changed();
  }

  /** @param {Upload} upload @returns {boolean} Whether the server, or this page, has the file of one that failed. */
  canRetry(upload) {
    return upload.state === "failed" && (Boolean(upload.document) || this.#sources.has(upload));
  }

  /** @param {string} collection Takes up what others, or an earlier visit, sent there. */
  async adopt(collection) {
    const { jobs } = await get(`/collections/${encodeURIComponent(collection)}/jobs`);
    for (const job of jobs) {
      if (this.list.some((upload) => upload.id === job.id) || job.state === "finished" || job.state === "cancelled") continue;
      this.list.push({ ...job, key: this.#count++ });
    }
    this.changed();
    this.#poll();
  }

  /** @param {Upload} upload Stops one that is not ready yet: nothing of it is kept. */
  async cancel(upload) {
    if (upload.state === "queued") this.#queue = this.#queue.filter((other) => other !== upload);
    else if (upload.state === "sending") this.#sending.get(upload)?.abort();
    else await del(`/jobs/${encodeURIComponent(upload.id ?? "")}`);
    upload.state = "cancelled";
    this.dismiss(upload);
  }

  /** @param {Upload} upload Tries one again that failed: the server has its file, or it is sent again. */
  async retry(upload) {
    if (upload.document) {
      try {
        await this.retryDocument(upload.collection, { id: upload.document, name: upload.file }, upload);
        return;
      } catch (error) {
        if (!(error instanceof Problem) || !this.#sources.has(upload)) throw error;
      }
    }
    Object.assign(upload, { state: "queued", done: 0, total: upload.size, message: "", problems: [], id: undefined, document: undefined });
    this.#queue.push(upload);
    this.changed();
    this.#next();
  }

  /**
   * Has a document read again that was not, or not completely.
   * @param {string} collection
   * @param {{id: string, name: string, folder?: string}} one
   * @param {Upload} [before] Its entry in the list.
   */
  async retryDocument(collection, { id, name, folder }, before) {
    const meant = new URLSearchParams({ file: name, ...(folder !== undefined && { folder }) });
    const job = await post(`/collections/${encodeURIComponent(collection)}/documents/${encodeURIComponent(id)}/retry?${meant}`);
    if (before) Object.assign(before, job);
    else if (!this.list.some((upload) => upload.id === job.id)) this.list.unshift({ ...job, key: this.#count++ });
    this.changed();
    this.#poll();
  }

  /** @param {{name: string, size: number}} file @returns {string} Why the server would refuse it; empty when it would not. */
  fault(file) {
    const { upload_types: types, upload_bytes: most, unreadable = [] } = this.limits;
    const name = file.name.toLowerCase();
    const missing = unreadable.find((one) => one.types.some((type) => name.endsWith(type)));
    if (missing) return `This server cannot read ${kinds(missing.types)}: ${missing.needs} is not installed on it. The administrator of this server can install it: ${missing.install}`;
    if (!types.some((type) => name.endsWith(type))) return `This file type is not supported. Supported: ${kinds(types)}.`;
    if (file.size > most) return `The file is ${bytes(file.size)}; the maximum is ${bytes(most)}.`;
    return file.size === 0 ? "The file is empty." : "";
  }

  /** Sends what waits, small files first. */
  #next() {
    this.#queue.sort((a, b) => a.size - b.size);
    while (this.#queue.length > 0 && (this.#sending.size < SENDERS - 1 || (this.#sending.size < SENDERS && this.#queue[0].size <= SMALL))) {
      const upload = /** @type {Upload} */ (this.#queue.shift());
      this.#send(upload).finally(() => this.#next());
    }
  }

  /** @param {Upload} upload */
  async #send(upload) {
    const source = this.#sources.get(upload);
    if (!source) return;
    const stop = new AbortController();
    this.#sending.set(upload, stop);
    upload.state = "sending";
    const progress = (/** @type {number} */ done, /** @type {number} */ total) => {
      Object.assign(upload, { done, total });
      this.changed();
    };
    try {
      const path = `/collections/${encodeURIComponent(upload.collection)}/documents/${encodeURIComponent(source.path)}`;
      Object.assign(upload, await put(path, source.file, { progress, signal: stop.signal }));
      this.#poll();
    } catch (error) {
      if (!stop.signal.aborted) this.#fail(upload, error);
    } finally {
      this.#sending.delete(upload);
    }
    this.changed();
  }

  /** Asks after what the server reads until all of it has ended. */
  async #poll() {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      for (;;) {
        const followed = this.list.filter((upload) => upload.state === "waiting" || upload.state === "running");
        if (followed.length === 0) return;
        await new Promise((resolve) => setTimeout(resolve, POLL));
        await Promise.all([...new Set(followed.map((upload) => upload.collection))].map((collection) => this.#refresh(collection)));
        this.changed();
      }
    } finally {
      this.#isPolling = false;
    }
  }

  /** @param {string} collection */
  async #refresh(collection) {
    const own = this.list.filter((upload) => upload.collection === collection && (upload.state === "waiting" || upload.state === "running"));
    try {
      const { jobs } = await get(`/collections/${encodeURIComponent(collection)}/jobs?open=true`);
      const open = new Map(jobs.map((/** @type {any} */ job) => [job.id, job]));
      for (const upload of own) await this.#renew(upload, open.get(upload.id));
    } catch (error) {
      if (passes(error)) return;
      for (const upload of own.filter((one) => !hasEnded(one))) this.#fail(upload, error);
    }
  }

  /** @param {Upload} upload @param {any} job As the server told it among those that have not ended, if it did. */
  async #renew(upload, job) {
    try {
      const news = job ?? (await get(`/jobs/${encodeURIComponent(upload.id ?? "")}`));
      if (hasEnded(upload)) return; // stopped meanwhile
      Object.assign(upload, news);
      if (hasEnded(upload)) this.#end(upload);
    } catch (error) {
      if (!passes(error) && !hasEnded(upload)) this.#fail(upload, error);
    }
  }

  /** @param {Upload} upload */
  #end(upload) {
    if (upload.state === "cancelled") return this.dismiss(upload); // by another page
    if (upload.state === "finished") this.#sources.delete(upload);
    this.finished(upload);
    if (upload.state === "finished" && upload.problems.length === 0) setTimeout(() => this.dismiss(upload), LINGER);
  }

  /** @param {Upload} upload @param {unknown} error */
  #fail(upload, error) {
    if (!(error instanceof Problem)) throw error;
    Object.assign(upload, { state: "failed", message: `${error.detail} ${error.hint}`.trim() });
    this.finished(upload);
  }
}

/** @param {unknown} error @returns {boolean} Whether the server may answer when it is asked again. */
const passes = (error) => error instanceof Problem && (error.status === 0 || error.status === 429 || error.status >= 500);

/**
 * The state of an upload, in words.
 * @param {Upload} upload
 * @returns {string}
 */
export function statusText(upload) {
  const { state, done, total, place } = upload;
  const message = rewriteForPage(upload.message);
  if (state === "queued") return "Waiting to be sent";
  if (state === "sending") return `Sending: ${bytes(done)} of ${bytes(total ?? upload.size)}`;
  if (state === "waiting") return place ? `Uploaded. ${ordinal(place)} in the queue` : message || "Uploaded";
  if (state === "running") return total ? `Reading: ${done.toLocaleString("en")} of ${extentOf({ kind: upload.kind ?? "page", items: total })}` : "Opening the file";
  return message || (state === "finished" ? "Ready to ask" : "The file could not be added.");
}

/**
 * How far all uploads are together: those that ended, and the share of the bytes that are sent or read.
 * @param {Upload[]} list
 * @returns {{ended: number, share: number}}
 */
export function overall(list) {
  const work = list.reduce((sum, upload) => sum + 2 * Math.max(upload.size, 1), 0);
  const done = list.reduce((sum, upload) => sum + Math.max(upload.size, 1) * stepsOf(upload), 0);
  return { ended: list.filter(hasEnded).length, share: work ? done / work : 0 };
}

/** @param {Upload} upload @returns {number} 1 when it is sent, 2 when it is read. */
function stepsOf({ state, done, total, size }) {
  if (hasEnded(/** @type {Upload} */ ({ state }))) return 2;
  if (state === "sending") return Math.min(done / Math.max(size, 1), 1);
  if (state === "running") return 1 + (total ? Math.min(done / total, 1) : 0);
  return state === "waiting" ? 1 : 0;
}

/** @type {[string, string[]][]} */
const FAMILIES = [
  ["PDF", ["pdf"]],
  ["Word, slides and sheets", ["doc", "docx", "docm", "odt", "rtf", "ppt", "pptx", "pptm", "odp", "xls", "xlsx", "xlsm", "ods"]],
  ["pictures", ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff", "heic", "heif"]],
  ["videos", ["mp4", "m4v", "mov", "mkv", "webm", "avi"]],
  ["web pages and text", ["htm", "html", "xhtml", "md", "markdown", "txt", "json", "jsonl", "ndjson"]],
  ["tables as text", ["csv", "tsv"]],
  ["mail and books", ["eml", "mbox", "epub"]],
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
