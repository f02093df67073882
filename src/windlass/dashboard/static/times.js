// @ts-check
/** Keeps the ages next to times up to date, by the clock of the server. */

/** How far the clock of this computer is behind that of the server, in milliseconds. */
let ahead = 0;

const UNITS = /** @type {const} */ ([["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]);

/**
 * Formats a duration in its largest unit, as the server does.
 * @param {number} seconds
 * @returns {string}
 */
export function formatSpan(seconds) {
  for (const [unit, size] of UNITS) {
    if (seconds >= size) {
      const value = seconds / size;
      return `${value < 10 ? Number(value.toPrecision(2)) : Math.round(value).toLocaleString("en-US")} ${unit}`;
    }
  }
  return `${Number(seconds.toPrecision(2))} s`;
}

/**
 * Formats how long ago a moment was, or in how long it will be.
 * @param {number} at milliseconds
 * @param {number} now milliseconds
 */
export function formatAge(at, now) {
  const seconds = (now - at) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds > 0 ? `${formatSpan(seconds)} ago` : `in ${formatSpan(-seconds)}`;
}

/** Updates every age on the page. */
export function updateAges() {
  const now = Date.now() + ahead;
  for (const time of /** @type {NodeListOf<HTMLTimeElement>} */ (document.querySelectorAll("time[data-at]"))) {
    const ago = time.querySelector(".ago");
    const text = ` · ${formatAge(Number(time.dataset.at), now)}`;
    if (ago && ago.textContent !== text) ago.textContent = text;
  }
}

/** Reads the server's time from the page and updates the ages every second while the page is visible. */
export function keepAges() {
  ahead = Number(document.body.dataset.now) - Date.now();
  setInterval(() => document.visibilityState === "visible" && updateAges(), 1000);
}
