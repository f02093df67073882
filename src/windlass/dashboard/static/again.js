// @ts-check
/** Fills in a form again after the server has refused it, when a person comes back from the page with the error. */

const KEY = "windlass.form";
const MARK = "#again";

/** @typedef {{ page: string, action: string, fields: [string, string][] }} Sent */

/** @returns {string} */
function here() {
  return location.pathname + location.search;
}

/** @param {SubmitEvent} event */
function remember(event) {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || form.method !== "post" || !form.closest("main")) return;
  /** @type {[string, string][]} */
  const fields = [];
  for (const [name, value] of new FormData(form)) if (name !== "csrf") fields.push([name, String(value)]);
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ page: here(), action: form.action, fields }));
  } catch {
    // Storage is off or full: what was typed is not kept.
  }
}

/** @returns {Sent | null} */
function take() {
  try {
    const text = sessionStorage.getItem(KEY);
    sessionStorage.removeItem(KEY);
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/**
 * @param {HTMLFormElement} form
 * @param {Sent} sent
 */
function isSame(form, sent) {
  if (form.action !== sent.action) return false;
  const hidden = /** @type {NodeListOf<HTMLInputElement>} */ (form.querySelectorAll("input[type=hidden]:not([name=csrf])"));
  return [...hidden].every((each) => sent.fields.some(([name, value]) => name === each.name && value === each.value));
}

/**
 * @param {HTMLFormElement} form
 * @param {Sent} sent
 */
function fill(form, sent) {
  const left = [...sent.fields];
  for (const field of form.elements) {
    if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement || field instanceof HTMLSelectElement)) continue;
    if (!field.name || field.name === "csrf") continue;
    const isBox = field instanceof HTMLInputElement && (field.type === "checkbox" || field.type === "radio");
    const at = left.findIndex(([name, value]) => name === field.name && (!isBox || value === field.value));
    if (isBox) field.checked = at >= 0;
    else if (at >= 0) field.value = left[at]?.[1] ?? "";
    if (at >= 0) left.splice(at, 1);
  }
  for (let around = form.closest("details"); around; around = around.parentElement?.closest("details") ?? null) around.open = true;
  /** @type {HTMLElement | null} */ (form.querySelector("input:not([type=hidden]), textarea:not([hidden]), select, button"))?.focus();
}

/** Keeps what a form sends until the next page, and fills it in again there if that page was asked to. */
export function bindForms() {
  document.addEventListener("submit", remember);
  if (location.hash !== MARK) {
    // The page with the error does not load this script, so any other page means that the form was accepted.
    take();
    return;
  }
  history.replaceState(null, "", here());
  const sent = take();
  if (!sent || sent.page !== here()) return;
  const form = [...document.forms].find((each) => each.method === "post" && isSame(each, sent));
  if (form) fill(form, sent);
}
