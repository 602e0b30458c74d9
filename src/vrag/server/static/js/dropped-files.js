/** The files that were dropped or chosen, with the folders in which they lie. */

/** @typedef {{file: File, folder: string}} PlacedFile `folder`: below the one that was dropped, itself included; empty for single files. */

/**
 * The files of a drop. To be called while it happens, since the browser forgets them after that.
 * @param {DataTransfer} data
 * @returns {Promise<PlacedFile[]>}
 */
export async function droppedFiles(data) {
  const entries = [...data.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const found = await Promise.all(entries.map((entry) => (entry === null ? [] : entry instanceof File ? [{ file: entry, folder: "" }] : filesOf(entry))));
  return found.flat();
}

/** @param {Iterable<File>} files Of a file dialog. @returns {PlacedFile[]} */
export function pickedFiles(files) {
  return [...files].map((file) => ({ file, folder: file.webkitRelativePath.split("/").slice(0, -1).join("/") })).filter((one) => !one.folder || isVisible(one.file.name));
}

/** @param {FileSystemEntry} entry @returns {Promise<PlacedFile[]>} */
async function filesOf(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject));
    return [{ file, folder: entry.fullPath.split("/").slice(1, -1).join("/") }];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {FileSystemEntry[]} */
  const inside = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) break;
    inside.push(...some.filter(({ name }) => isVisible(name)));
  }
  return (await Promise.all(inside.map(filesOf))).flat();
}

/** @param {string} name */
const isVisible = (name) => !name.startsWith(".");
