// @ts-check
/** Reaches an action from the keyboard without sending anything. */

const FIELD = "input:not([type=hidden]), textarea:not([hidden]), select";

/**
 * Follows a link, opens the form of a summary, or moves the focus to the form of a button, where Enter sends it.
 * @param {HTMLElement} button
 */
export function reach(button) {
  if (button instanceof HTMLAnchorElement) {
    button.click();
    return;
  }
  const around = button.closest("summary")?.parentElement;
  if (around instanceof HTMLDetailsElement) around.open = true;
  const form = around ?? button.closest("form");
  const field = /** @type {HTMLElement | null} */ (form?.querySelector(FIELD) ?? null);
  (field ?? button).focus();
}
