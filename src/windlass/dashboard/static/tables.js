// @ts-check
/**
 * Rows that can be walked through and picked: those of tables, and other elements with `data-row`. They have `data-id` or
 * an id, so that the current one survives updates.
 */

const ROWS = "tr[data-id], [data-row]";
const BOX = "input[type=checkbox]";

/** @type {string | null} */
let current = null;

/** @returns {HTMLElement[]} */
function rows() {
  return [...document.querySelectorAll(/** @type {"tr"} */ (ROWS))];
}

/** @param {HTMLElement} row */
function keyOf(row) {
  return row.dataset.id ?? row.id;
}

/** @returns {HTMLElement | null} */
export function currentRow() {
  return rows().find((row) => keyOf(row) === current) ?? null;
}

function showCurrent() {
  for (const row of rows()) row.classList.toggle("current", keyOf(row) === current);
}

/**
 * Makes the next or previous row the current one.
 * @param {number} by
 * @returns {boolean}
 */
export function moveRow(by) {
  const all = rows();
  if (!all.length) return false;
  const at = all.findIndex((row) => keyOf(row) === current);
  const row = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  current = row ? keyOf(row) : null;
  showCurrent();
  row?.scrollIntoView({ block: "nearest" });
  // Screen readers follow the focus, and Enter follows the link.
  /** @type {HTMLElement | null | undefined} */ (row?.querySelector("a[href]:not([tabindex='-1'])"))?.focus({ preventScroll: true });
  return true;
}

/** Picks the current row, or drops it. */
export function pickRow() {
  const box = /** @type {HTMLInputElement | null} */ (currentRow()?.querySelector("input[type=checkbox]"));
  box?.click();
  return box !== null;
}

function countPicked() {
  const picked = document.querySelectorAll(`tr[data-id] ${BOX}:checked`).length;
  for (const element of document.querySelectorAll("[data-picked]")) element.textContent = picked.toLocaleString("en-US");
}

/** Follows picked rows and live updates. */
export function bindTables() {
  document.addEventListener("change", (event) => {
    const box = /** @type {HTMLInputElement} */ (event.target);
    if (box.matches?.("[data-pick-all]")) {
      const all = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("tr[data-id] input[type=checkbox]"));
      for (const each of all) each.checked = box.checked;
    }
    countPicked();
  });
  document.addEventListener("windlass:swapped", () => (showCurrent(), countPicked()));
  countPicked();
}
