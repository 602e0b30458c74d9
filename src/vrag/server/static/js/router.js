/** The place in the page: a path after `#`, so that every place has an address without asking the server. */

/**
 * @typedef {{name: "ask", documents: string[]} | {name: "run", id: string, step: number | null, cite: number | null}
 *   | {name: "documents", collection: string | null, params: URLSearchParams} | {name: "setup"}} Route
 */

/**
 * The route that a hash names; the question box for what names none.
 * @param {string} hash
 * @returns {Route}
 */
export function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  const given = new URLSearchParams(query);
  if (parts[0] === "runs" && parts[1]) {
    return { name: "run", id: parts[1], step: number(given.get("step"), 0), cite: number(given.get("cite"), 1) };
  }
  if (parts[0] === "documents") return { name: "documents", collection: given.get("collection"), params: given };
  if (parts[0] === "setup") return { name: "setup" };
  return { name: "ask", documents: (given.get("documents") ?? "").split(",").filter((id) => /^[0-9a-f]{64}$/.test(id)) };
}

/** @param {string | null} text @param {number} least @returns {number | null} */
function number(text, least) {
  const value = Number.parseInt(text ?? "", 10);
  return value >= least ? value : null;
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string} id @returns {string} */
export const runHash = (id) => `#/runs/${encodeURIComponent(id)}`;

/** A run with the place of a piece of evidence open. @param {string} id @param {number} cite @returns {string} */
export const citeHash = (id, cite) => `${runHash(id)}?cite=${cite}`;

/** @param {string} collection @param {Record<string, string>} [params] How the list is shown. @returns {string} */
export const documentsHash = (collection, params = {}) => `#/documents?${new URLSearchParams({ collection, ...params })}`;

/**
 * Goes somewhere.
 * @param {string} hash
 * @param {{replace?: boolean}} [how] `replace` leaves no step back.
 */
export function navigate(hash, { replace = false } = {}) {
  if (!replace) {
    location.hash = hash;
    return;
  }
  history.replaceState(null, "", hash);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

/** @returns {Route} */
export const here = () => routeOf(location.hash);

/**
 * Calls with the route now and after every change.
 * @param {(route: Route) => void} callback
 * @param {AbortSignal} signal Ends it.
 */
export function onRoute(callback, signal) {
  window.addEventListener("hashchange", () => callback(here()), { signal });
  callback(here());
}
