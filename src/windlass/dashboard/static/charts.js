// @ts-check
/**
 * Shows the values of a moment in the legend of a chart: the one that is pointed at, was touched, or has the focus.
 * Arrow keys move between moments. A second touch, a click or Enter opens the list behind it.
 */

const HIT = ".chart-hit";

/** @type {Element | null} */
let active = null;
let wasActive = false;

/** @param {EventTarget | null} target */
function find(target) {
  return target instanceof Element ? target.closest(HIT) : null;
}

/**
 * Writes the values of a column into the legend; without one, the latest values.
 * @param {Element} figure
 * @param {Element | null} hit
 */
function show(figure, hit) {
  const index = hit?.parentElement ? [...hit.parentElement.children].indexOf(hit) : -1;
  const row = index < 0 ? undefined : figure.querySelectorAll(".chart-table tbody tr")[index];
  const cells = row ? [...row.children] : [];
  /** @type {NodeListOf<HTMLElement>} */
  const values = figure.querySelectorAll(".chart-legend b");
  values.forEach((value, place) => {
    value.textContent = (cells.length ? cells[place + 1]?.textContent : value.dataset.latest) ?? "";
  });
  const when = figure.querySelector(".chart-when");
  if (when) when.textContent = cells[0]?.textContent ?? "";
}

/** @param {Element | null} hit */
function activate(hit) {
  const before = active?.closest("figure");
  active = hit;
  const figure = hit?.closest("figure");
  if (before && before !== figure) show(before, null);
  if (figure) show(figure, hit);
}

/** Makes the column with the focus the one that Tab stops at, so that Tab leaves the chart from there. */
function rove() {
  const hit = find(document.activeElement);
  for (const each of hit?.parentElement?.children ?? []) each.setAttribute("tabindex", each === hit ? "0" : "-1");
}

/** @param {KeyboardEvent} event */
function move(event) {
  const hit = find(event.target);
  const siblings = hit?.parentElement?.children;
  if (!hit || !siblings || event.altKey || event.ctrlKey || event.metaKey) return;
  const next = {
    ArrowLeft: hit.previousElementSibling,
    ArrowRight: hit.nextElementSibling,
    Home: siblings[0],
    End: siblings[siblings.length - 1],
  }[event.key];
  if (!(next instanceof SVGElement)) return;
  event.preventDefault();
  next.focus();
}

/** Follows the pointer, touches and the focus over all charts of the page. */
export function bindCharts() {
  document.addEventListener("pointerover", (event) => {
    const hit = find(event.target);
    wasActive = hit === active; // A touch begins with this event.
    if (!wasActive) activate(hit ?? find(document.activeElement));
  });
  document.addEventListener("focusin", (event) => {
    activate(find(event.target));
    rove();
  });
  document.addEventListener("click", (event) => {
    const isTouch = event instanceof PointerEvent && event.pointerType === "touch";
    if (isTouch && find(event.target) && !wasActive) event.preventDefault();
  });
  document.addEventListener("keydown", move);
  document.addEventListener("windlass:swapped", () => {
    activate(active?.isConnected ? active : null);
    rove();
  });
}
