/** The names of files in words and signs. */

/** @param {{name: string, folder: string | null}} one @returns {string} Its name, and its folder where others have this name. */
export function placed({ name, folder }) {
  return folder === null ? name : `${name} in ${folder}`;
}

/** @param {string} name @returns {string} The type of a file; empty where its name has no plain suffix. */
export function typeOf(name) {
  return /\.([a-z0-9]{1,8})$/i.exec(name)?.[1].toUpperCase() ?? "";
}

/** @param {string} name @returns {"image" | "play" | "page"} The sign of a kind of file. */
export function kindOf(name) {
  if (/\.(jpe?g|png|webp|gif|tiff?|bmp)$/i.test(name)) return "image";
  if (/\.(mp4|mkv|mov|avi|webm)$/i.test(name)) return "play";
  return "page";
}
