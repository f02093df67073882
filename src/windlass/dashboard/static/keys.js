// @ts-check
/** Keys: `g` and a letter go to a page, `/` filters, `j k x` move and pick, `?` shows all. */

import { openPalette } from "./palette.js";
import { reach } from "./reach.js";
import { currentRow, moveRow, pickRow } from "./tables.js";

let afterG = 0;

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

/**
 * Goes to the button for a key: in the current row, else on the page. A key never sends a form, so that a stray one does
 * nothing: it opens the form or moves the focus there, and Enter confirms.
 * @param {string} key
 */
function press(key) {
  const button = /** @type {HTMLElement | null} */ (
    currentRow()?.querySelector(`[data-key="${key}"]`) ?? document.querySelector(`main [data-key="${key}"]:not(tr *, [data-row] *)`)
  );
  if (button) reach(button);
  return button !== null;
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (afterG && Date.now() - afterG < 1500) {
    afterG = 0;
    const link = /** @type {HTMLAnchorElement | null} */ (document.querySelector(`[data-go="${CSS.escape(event.key)}"]`));
    if (link) {
      event.preventDefault();
      link.click();
    }
    return;
  }
  if (handle(event.key)) event.preventDefault();
}

/**
 * @param {string} key
 * @returns {boolean} whether the key did something
 */
function handle(key) {
  switch (key) {
    case "g":
      afterG = Date.now();
      return true;
    case "/": {
      const filter = /** @type {HTMLInputElement | null} */ (document.querySelector("[data-filter]"));
      filter?.focus();
      filter?.select();
      return filter !== null;
    }
    case "?":
      /** @type {HTMLDialogElement | null} */ (document.getElementById("keys"))?.showModal();
      return true;
    case "j":
      return moveRow(1);
    case "k":
      return moveRow(-1);
    case "x":
      return pickRow();
    case "Enter": {
      const link = currentRow()?.querySelector("a");
      if (!link || document.activeElement !== document.body) return false;
      link.click();
      return true;
    }
    case "r":
    case "c":
    case "w":
    case "p":
      return press(key);
    default:
      return false;
  }
}

/** Listens to keys. */
export function bindKeys() {
  document.addEventListener("keydown", onKey);
}
