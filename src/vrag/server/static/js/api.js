/** The server, as the page sees it: JSON over fetch, uploads with progress, runs as streams of events. */

import { rewriteForPage, rewriteRefusal } from "./messages.js";

/**
 * The address of a path of the server: relative to the page, which a proxy may serve below a path of its own.
 * @param {string} path
 */
const addressOf = (path) => path.replace(/^\//, "");

/** A request that was refused or never arrived. `status` is 0 when the server could not be reached. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} detail A sentence.
   * @param {string} [hint] What to do.
   */
  constructor(status, detail, hint = "") {
    super(detail);
    this.name = "Problem";
    this.status = status;
    this.detail = detail;
    this.hint = hint;
  }
}

/** @param {string} path @param {{signal?: AbortSignal}} [how] @returns {Promise<any>} */
export const get = (path, how = {}) => json(path, how);

/** @param {string} path @param {unknown} [body] @returns {Promise<any>} */
export const post = (path, body) => json(path, { method: "POST", ...asJson(body) });

/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export const patch = (path, body) => json(path, { method: "PATCH", ...asJson(body) });

/** @param {string} path @returns {Promise<any>} */
export const del = (path) => json(path, { method: "DELETE" });

/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export const putJson = (path, body) => json(path, { method: "PUT", ...asJson(body) });

/**
 * Asks with a POST and reads the objects of its response one by one, as they come.
 * @param {string} path
 * @param {unknown} body
 * @param {{line: (object: any) => void, signal: AbortSignal}} how
 */
export async function postLines(path, body, { line, signal }) {
  const response = await request(path, { method: "POST", ...asJson(body), signal });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      throw signal.aborted ? error : away();
    });
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const text of lines) if (text) line(JSON.parse(text));
  }
}

/**
 * Sends a file.
 * @param {string} path
 * @param {Blob} blob
 * @param {{progress?: (sent: number, total: number) => void, signal?: AbortSignal}} [how] `progress` counts bytes.
 * @returns {Promise<any>}
 */
export function put(path, blob, { progress, signal } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", addressOf(path));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => progress?.(event.loaded, event.total));
    request.addEventListener("load", () => {
      if (request.status < 300) resolve(parsed(request.responseText));
      else reject(problem(request.status, request.responseText));
    });
    request.addEventListener("error", () => reject(away()));
    request.addEventListener("abort", () => reject(new DOMException("The upload was stopped.", "AbortError")));
    signal?.addEventListener("abort", () => request.abort());
    request.send(blob);
  });
}

/**
 * Asks for a file and lets the browser keep it under the name that the server gives it.
 * @param {string} path
 * @param {unknown} [body] Of a POST; without one it is a GET.
 * @param {string} [name] Where the server gives none.
 */
export async function download(path, body, name = "vrag") {
  const response = await request(path, body === undefined ? {} : { method: "POST", ...asJson(body) });
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName(response.headers.get("content-disposition")) ?? name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * The name in a Content-Disposition header.
 * @param {string | null} header
 * @returns {string | null}
 */
export function fileName(header) {
  const encoded = header?.match(/filename\*=utf-8''([^;]+)/i);
  if (encoded) return decodeURIComponent(encoded[1]);
  return header?.match(/filename="?([^";]+)"?/i)?.[1] ?? null;
}

/** The content of a file. @param {string} path */
export const getBlob = async (path) => (await request(path, {})).blob();

/** @param {unknown} body */
function asJson(body) {
  return body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
}

/** @param {string} path @param {RequestInit} init @returns {Promise<any>} */
async function json(path, init) {
  return parsed(await (await request(path, init)).text());
}

/** @param {string} path @param {RequestInit} init */
async function request(path, init) {
  let response;
  try {
    response = await (taken(path, init) ?? fetch(addressOf(path), { credentials: "same-origin", ...init }));
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw away();
  }
  if (!response.ok) throw problem(response.status, await response.text());
  return response;
}

/** Takes the response that first.js asked for before this module came; only once. @param {string} path @param {RequestInit} init @returns {Promise<Response> | undefined} */
function taken(path, { method = "GET" }) {
  /** @type {Map<string, Promise<Response>> | undefined} */
  const ahead = /** @type {any} */ (globalThis).vragAhead;
  if (method !== "GET") return undefined;
  const answer = ahead?.get(path);
  ahead?.delete(path);
  return answer;
}

/** @param {string} text @returns {any} */
function parsed(text) {
  return text ? JSON.parse(text) : null;
}

function away() {
  return new Problem(0, "The server does not answer.", "Check that it is running, and try again.");
}

/** @param {number} status @param {string} text */
function problem(status, text) {
  if (status === 401) window.dispatchEvent(new CustomEvent("vrag:signed-out"));
  if (status === 403) window.dispatchEvent(new CustomEvent("vrag:forbidden"));
  try {
    const { detail, hint } = JSON.parse(text);
    if (typeof detail === "string") {
      const [message, advice] = status === 422 ? rewriteRefusal(detail, hint ?? "") : [rewriteForPage(detail), rewriteForPage(hint ?? "")];
      return new Problem(status, message, advice);
    }
  } catch {
    // it is no JSON: a proxy wrote it
  }
  if (status >= 502 && status <= 504) return new Problem(status, "The server is not available.", "Try again in a moment.");
  return new Problem(status, `The request failed (status ${status}).`, "Reload the page and try again.");
}

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8_000;
const PATIENCE = 5_000;

/**
 * Follows a run: its events so far, then each new one as it comes. Reconnects after the last event that arrived.
 * @param {string} id
 * @param {object} calls
 * @param {number} [calls.after] Sequence number of the last event that is known already.
 * @param {(event: any) => void} calls.event
 * @param {(drawing: any) => void} [calls.drawing]
 * @param {(place: {position: number}) => void} [calls.queued] While it waits, whenever its position has changed.
 * @param {(ended: {state: string}) => void} [calls.end]
 * @param {() => void} [calls.found] When it is connected, for the first time or again.
 * @param {(problem?: Problem) => void} [calls.lost] While it reconnects; with a problem when it gave up for good.
 * @returns {{close: () => void}}
 */
export function follow(id, { after = -1, event, drawing, queued, end, found, lost }) {
  let seen = after;
  let pause = FIRST_PAUSE;
  let closed = false;
  /** @type {EventSource} */
  let source;
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;

  const close = () => {
    closed = true;
    source?.close();
    clearTimeout(timer);
  };
  const open = () => {
    source = new EventSource(`runs/${encodeURIComponent(id)}/events?after=${seen}`);
    source.onmessage = (message) => {
      pause = FIRST_PAUSE;
      const record = JSON.parse(message.data);
      if (record.seq <= seen) return;
      seen = record.seq;
      event(record);
    };
    source.addEventListener("drawing", (message) => drawing?.(JSON.parse(message.data)));
    source.addEventListener("queue", (message) => {
      pause = FIRST_PAUSE;
      queued?.(JSON.parse(message.data));
    });
    source.addEventListener("end", (message) => {
      closed = true; // the server closes the stream; to break it off would count as a failed request
      timer = setTimeout(close, PATIENCE);
      end?.(JSON.parse(message.data));
    });
    source.onopen = () => found?.();
    source.onerror = broken;
  };
  const broken = () => {
    source.close(); // its own retries cannot tell a refusal from a fault
    if (closed) return;
    lost?.();
    timer = setTimeout(again, pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  };
  const again = async () => {
    try {
      await get(`/runs/${encodeURIComponent(id)}`);
    } catch (error) {
      if (closed) return;
      if (!(error instanceof Problem) || error.status === 0 || error.status >= 500) return broken();
      close();
      return lost?.(error);
    }
    if (!closed) open();
  };

  open();
  return { close };
}
