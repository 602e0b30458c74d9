/**
 * Signs as lists of SVG shapes on a grid of 24: `[tag, attributes]`. Drawn as lines; base.css sets stroke and size.
 */

/** @param {string[]} data @returns {[string, Record<string, string>][]} */
const lines = (...data) => data.map((d) => ["path", { d }]);

/** @type {Record<string, [string, Record<string, string>][]>} */
export const SHAPES = {
  search: lines("M10.5 4a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13z", "M15.5 15.5L20 20"),
  crop: lines("M7 3v14h14", "M3 7h14v14"),
  answer: lines("M4 5h16v11h-8l-5 4v-4H4z", "M8 10.5h8"),
  warn: lines("M12 4L21 19.5H3z", "M12 10v4.5", "M12 17v.01"),
  check: lines("M5 12.5l4.5 4.5L19 7"),
  stop: [["rect", { x: "6", y: "6", width: "12", height: "12", rx: "2", class: "solid" }]],
  play: [["path", { d: "M8 5.5v13l10.5-6.5z", class: "solid" }]],
  pause: lines("M8.5 6v12", "M15.5 6v12"),
  back: lines("M14.5 6l-6 6l6 6"),
  forward: lines("M9.5 6l6 6l-6 6"),
  close: lines("M6 6l12 12", "M18 6L6 18"),
  plus: lines("M12 5v14", "M5 12h14"),
  minus: lines("M5 12h14"),
  full: lines("M4 9V4h5", "M15 4h5v5", "M20 15v5h-5", "M9 20H4v-5", "M4 4l5.5 5.5", "M20 4l-5.5 5.5", "M20 20l-5.5-5.5", "M4 20l5.5-5.5"),
  fit: lines("M4 9V4h5", "M15 4h5v5", "M20 15v5h-5", "M9 20H4v-5"),
  link: lines("M10 14a4 4 0 0 0 5.7.3l3-3a4 4 0 0 0-5.7-5.7L11.8 6.8", "M14 10a4 4 0 0 0-5.7-.3l-3 3a4 4 0 0 0 5.7 5.7l1.2-1.2"),
  share: lines("M14 5h5v5", "M19 5l-8 8", "M17 13.5V19H5V7h5.5"),
  download: lines("M12 4v11", "M7 10.5l5 5l5-5", "M5 20h14"),
  upload: lines("M12 16V5", "M7 9.5l5-5l5 5", "M5 20h14"),
  trash: lines("M5 7h14", "M9.5 7V4.5h5V7", "M7 7l.8 12.5h8.4L17 7", "M10.5 11v5", "M13.5 11v5"),
  page: lines("M6 3.5h8l4 4v13H6z", "M14 3.5v4h4", "M9 12h6", "M9 16h6"),
  pages: lines("M8.5 6.5h7l4 4v10h-11z", "M15.5 6.5v4h4", "M5 17.5v-14h8"),
  graph: [
    ["circle", { cx: "12", cy: "5.5", r: "2.2" }],
    ["circle", { cx: "6", cy: "18", r: "2.2" }],
    ["circle", { cx: "18", cy: "18", r: "2.2" }],
    ...lines("M11 7.5L7 16", "M13 7.5l4 8.5"),
  ],
  clock: lines("M12 4a8 8 0 1 1 0 16a8 8 0 0 1 0-16z", "M12 8v4.5l3 2"),
  coins: lines("M9 5c3.3 0 6 1.3 6 3s-2.7 3-6 3s-6-1.3-6-3s2.7-3 6-3z", "M3 8v4c0 1.7 2.7 3 6 3s6-1.3 6-3V8", "M9.5 15v3c0 1.7 2.6 3 5.7 3s5.8-1.3 5.8-3v-4c0-1.5-2.4-2.8-6-3"),
  sun: lines("M12 8a4 4 0 1 1 0 8a4 4 0 0 1 0-8z", "M12 3v1.5", "M12 19.5V21", "M3 12h1.5", "M19.5 12H21", "M5.6 5.6l1.1 1.1", "M17.3 17.3l1.1 1.1", "M5.6 18.4l1.1-1.1", "M17.3 6.7l1.1-1.1"),
  moon: lines("M19.5 14.5A8 8 0 1 1 9.5 4.5a6.5 6.5 0 0 0 10 10z"),
  device: lines("M4 5h16v11H4z", "M9 20h6", "M12 16v4"),
  menu: lines("M4 7h16", "M4 12h16", "M4 17h16"),
  sidebar: [["rect", { x: "3.5", y: "5", width: "17", height: "14", rx: "2.5" }], ...lines("M9.5 5v14")],
  image: [...lines("M4 5h16v14H4z", "M4 16l4.5-4.5l4 4l2.5-2.5l5 5"), ["circle", { cx: "15.5", cy: "9", r: "1.3" }]],
  send: lines("M12 19V5.5", "M6 11l6-6l6 6"),
  sliders: lines("M4 8h8", "M17 8h3", "M4 16h3", "M12 16h8", "M14.5 5.8a2.2 2.2 0 1 1 0 4.4a2.2 2.2 0 0 1 0-4.4z", "M9.5 13.8a2.2 2.2 0 1 1 0 4.4a2.2 2.2 0 0 1 0-4.4z"),
  down: lines("M6 9.5l6 6l6-6"),
  up: lines("M6 14.5l6-6l6 6"),
  grid: lines("M4 4h6.5v6.5H4z", "M13.5 4H20v6.5h-6.5z", "M4 13.5h6.5V20H4z", "M13.5 13.5H20V20h-6.5z"),
  folder: lines("M3.5 6h6l2 2.5h9V19h-17z"),
  report: lines("M6 3.5h12v17H6z", "M9 8h6", "M9 12h6", "M9 16h3"),
  more: [
    ["circle", { cx: "6", cy: "12", r: "1.4", class: "solid" }],
    ["circle", { cx: "12", cy: "12", r: "1.4", class: "solid" }],
    ["circle", { cx: "18", cy: "12", r: "1.4", class: "solid" }],
  ],
  leave: lines("M14 4H5v16h9", "M10 12h10", "M16.5 8.5L20 12l-3.5 3.5"),
  pin: lines("M9 4h6l-1 6l3 3v1.5H7V13l3-3z", "M12 14.5V20.5"),
  edit: lines("M5 19l1-4L16 5l3 3L9 18z", "M14 7l3 3"),
  user: [["circle", { cx: "12", cy: "8.5", r: "3.5" }], ...lines("M5 20c.5-4 3.3-6 7-6s6.5 2 7 6")],
  dot: [["circle", { cx: "12", cy: "12", r: "4", class: "solid" }]],
};
