// @ts-check
/** Tables with rows that can be walked through and picked. Rows have `data-id`, so that the current one survives updates. */

/** @type {string | null} */
let current = null;

/** @returns {HTMLElement[]} */
function rows() {
  return [...document.querySelectorAll(/** @type {"tr"} */ ("tr[data-id]"))];
}

/** @returns {HTMLElement | null} */
export function currentRow() {
  return rows().find((row) => row.dataset.id === current) ?? null;
}

function showCurrent() {
  for (const row of rows()) row.classList.toggle("current", row.dataset.id === current);
}

/**
 * Makes the next or previous row the current one.
 * @param {number} by
 * @returns {boolean}
 */
export function moveRow(by) {
  const all = rows();
  if (!all.length) return false;
  const at = all.findIndex((row) => row.dataset.id === current);
  const row = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  current = row?.dataset.id ?? null;
  showCurrent();
  row?.scrollIntoView({ block: "nearest" });
  return true;
}

/** Picks the current row, or drops it. */
export function pickRow() {
  const box = /** @type {HTMLInputElement | null} */ (currentRow()?.querySelector("input[type=checkbox]"));
  box?.click();
  return box !== null;
}

function countPicked() {
  const picked = document.querySelectorAll("tr[data-id] input[type=checkbox]:checked").length;
  for (const element of document.querySelectorAll("[data-picked]")) element.textContent = picked.toLocaleString("en-US");
  for (const element of document.querySelectorAll("[data-needs-picked]")) element.toggleAttribute("disabled", picked === 0);
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
