// @ts-check
/** The switches in the header. Without scripts they are plain forms. */

const THEMES = ["auto", "light", "dark"];

/**
 * Sends a form without leaving the page.
 * @param {HTMLFormElement} form
 * @param {Record<string, string>} fields
 */
async function send(form, fields) {
  const body = new URLSearchParams();
  for (const [name, value] of new FormData(form)) body.set(name, String(value));
  for (const [name, value] of Object.entries(fields)) body.set(name, value);
  return fetch(form.action, { method: "POST", body, redirect: "manual" });
}

function bindTheme() {
  const button = /** @type {HTMLButtonElement | null} */ (document.getElementById("theme"));
  button?.form?.addEventListener("submit", (event) => {
    event.preventDefault();
    const theme = button.value;
    document.documentElement.dataset.theme = theme;
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
    if (button.form) void send(button.form, { theme });
    button.value = next;
    button.title = `Theme: ${theme}. Click for ${next}.`;
    button.setAttribute("aria-label", `Theme: ${theme}. Switch to ${next}.`);
  });
}

function bindZone() {
  const select = /** @type {HTMLSelectElement | null} */ (document.getElementById("zone"));
  const form = select?.form;
  if (!select || !form) return;
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (own && ![...select.options].some((option) => option.value === own)) select.add(new Option(own, own));
  select.addEventListener("change", async () => {
    await send(form, { zone: select.value });
    if (document.body.dataset.live) location.reload(); // Another page is the answer to a form, and is shown only once.
  });
}

/** Makes the switches work at once. */
export function bindPreferences() {
  bindTheme();
  bindZone();
}
