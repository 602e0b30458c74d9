/** The names of files in words and signs. */

import { count } from "./format.js";

/** Stands for the slashes in the name of a file that was uploaded with its folder. */
const FOLDER_SIGN = "／";

/** @param {{name: string}} one @returns {string} Its name, without the folder that it was uploaded with. */
export function plainName({ name }) {
  return name.split(FOLDER_SIGN).at(-1) || name;
}

/** @param {{name: string, folder?: string}} one @returns {string} Its name, and its folder if it lies in one. */
export function placed(one) {
  return one.folder ? `${plainName(one)} in ${one.folder}` : plainName(one);
}

/** @param {string} name @returns {string} The type of a file; empty where its name has no plain suffix. */
export function typeOf(name) {
  return /\.([a-z0-9]{1,8})$/i.exec(name)?.[1].toUpperCase() ?? "";
}

/** @param {string} name @returns {"image" | "play" | "page"} The sign of a kind of file. */
export function kindOf(name) {
  if (/\.(jpe?g|png|webp|gif|tiff?|bmp)$/i.test(name)) return "image";
  if (/\.(mp4|m4v|mkv|mov|avi|webm)$/i.test(name)) return "play";
  return "page";
}

/**
 * How much a document holds: `12 pages`, `3 clips, 4:10 min`, `8 passages`.
 * @param {{kind: string, items: number, seconds?: number | null}} one
 * @returns {string}
 */
export function extentOf({ kind, items, seconds }) {
  return kind === "clip" && seconds ? `${count(items, kind)}, ${lengthOf(seconds)}` : count(items, kind);
}

/** @param {number} seconds @returns {string} */
function lengthOf(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)} h` : `${minutes}:${two(rest)} min`;
}
