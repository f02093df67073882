// @ts-check
/** Keeps the end of a growing output in view, unless somebody has scrolled up to read. */

/** How many pixels from the end still count as the end: zoomed pages have fractions of pixels. */
const TOLERANCE = 4;

/** @type {WeakSet<Element>} */
const scrolledUp = new WeakSet();

function showEnds() {
  for (const output of document.querySelectorAll("pre[data-follow]")) {
    if (!scrolledUp.has(output)) output.scrollTop = output.scrollHeight;
  }
}

/** Follows every output with the attribute `data-follow`. */
export function followOutputs() {
  const onScroll = (/** @type {Event} */ event) => {
    const output = event.target;
    if (!(output instanceof Element) || !output.matches("pre[data-follow]")) return;
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight <= TOLERANCE;
    if (isAtEnd) scrolledUp.delete(output);
    else scrolledUp.add(output);
  };
  document.addEventListener("scroll", onScroll, { capture: true, passive: true });
  document.addEventListener("windlass:swapped", showEnds);
  showEnds();
}
