/** What views are made of: elements, and what stands above the page. */

export { announce, h, icon, iconButton, keepFocus, redraw, replace, s, showList } from "./elements.js";
export { dialog, toast } from "./overlays.js";
