// @ts-check
/** The palette: type a page, a task id, a filter or an action of this page, and go there. */

import { reach } from "./reach.js";

/** @typedef {{ text: string, note: string, href?: string, button?: HTMLElement }} Choice */

const MOST_ACTIONS = 12;

const dialog = () => /** @type {HTMLDialogElement} */ (document.getElementById("palette"));
const input = () => /** @type {HTMLInputElement} */ (document.getElementById("palette-input"));
const list = () => /** @type {HTMLUListElement} */ (document.getElementById("palette-list"));
let selected = 0;
/** @type {Choice[]} */
let choices = [];

/** @param {HTMLElement} button */
function nameOf(button) {
  return (button.getAttribute("aria-label") ?? button.textContent ?? "").trim();
}

/**
 * @param {string} words
 * @returns {HTMLElement[]} the buttons of the page that can be seen and have these words in their name
 */
function findActions(words) {
  const all = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("main summary.button, main form[method=post] button"));
  return [...all].filter((button) => button.checkVisibility() && nameOf(button).toLowerCase().includes(words));
}

/**
 * @param {string} text
 * @returns {Choice[]}
 */
function find(text) {
  const root = document.body.dataset.root ?? "./";
  const words = text.trim().toLowerCase();
  /** @type {Choice[]} */
  const found = [];
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-go]"))) {
    const name = link.textContent?.trim() ?? "";
    if (name.toLowerCase().includes(words)) found.push({ text: name, note: `g ${link.dataset.go}`, href: link.href });
  }
  for (const button of words ? findActions(words).slice(0, MOST_ACTIONS) : []) {
    found.push({ text: nameOf(button), note: "this page", button });
  }
  if (/^[0-9a-f-]{8,36}$/i.test(words)) {
    found.unshift({ text: `Task ${words}`, note: "open", href: `${root}tasks/${encodeURIComponent(words)}` });
  }
  if (words) {
    found.push({ text: `Tasks: ${text.trim()}`, note: "filter", href: `${root}tasks?q=${encodeURIComponent(text.trim())}` });
  }
  return found;
}

function draw() {
  choices = find(input().value);
  selected = Math.min(selected, Math.max(0, choices.length - 1));
  list().replaceChildren(
    ...choices.map((choice, at) => {
      const item = document.createElement("li");
      item.id = `palette-${at}`;
      item.role = "option";
      item.ariaSelected = String(at === selected);
      const note = document.createElement("span");
      note.className = "quiet";
      note.textContent = choice.note;
      item.append(choice.text, note);
      item.addEventListener("click", () => go(choice));
      return item;
    }),
  );
  input().setAttribute("aria-activedescendant", choices.length ? `palette-${selected}` : "");
}

/** @param {Choice | undefined} choice */
function go(choice) {
  if (choice?.href) location.href = choice.href;
  if (choice?.button) {
    dialog().close();
    reach(choice.button);
  }
}

/** Opens the palette. */
export function openPalette() {
  input().value = "";
  selected = 0;
  draw();
  if (!dialog().open) dialog().showModal();
}

/** Listens to the button and to what is typed. */
export function bindPalette() {
  document.getElementById("open-palette")?.addEventListener("click", openPalette);
  input().addEventListener("input", () => ((selected = 0), draw()));
  input().addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") selected = Math.min(choices.length - 1, selected + 1);
    else if (event.key === "ArrowUp") selected = Math.max(0, selected - 1);
    else if (event.key === "Enter") go(choices[selected]);
    else return;
    event.preventDefault();
    draw();
  });
  dialog().addEventListener("click", (event) => event.target === dialog() && dialog().close());
}
