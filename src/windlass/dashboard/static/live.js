// @ts-check
/** Live updates: one event stream, which carries the regions of the page that changed. */

import { morph } from "./morph.js";
import { updateAges } from "./times.js";

/** @type {EventSource | null} */
let stream = null;

/**
 * Shows in the header whether the page is live.
 * @param {"on" | "off" | "stale"} state
 * @param {string} text
 */
function setStatus(state, text) {
  const status = document.getElementById("live-status");
  if (!status) return;
  status.dataset.state = state;
  const label = status.querySelector(".live-text");
  if (label) label.textContent = text;
  status.title = { on: "The page follows the store", off: "The page does not change by itself", stale: text }[state];
}

let isPressed = false;

/** @type {Record<string, string>} What arrived while a mouse button or a finger was down. */
let waiting = {};

/**
 * Swaps regions of the page. A click must end on what it began on, so nothing moves while the pointer is down.
 * @param {Record<string, string>} regions HTML by id
 */
export function swap(regions) {
  if (isPressed) {
    Object.assign(waiting, regions);
    return;
  }
  for (const [id, html] of Object.entries(regions)) {
    const region = document.getElementById(id);
    if (region) morph(region, html);
  }
  updateAges();
  document.dispatchEvent(new CustomEvent("windlass:swapped", { detail: Object.keys(regions) }));
}

/** Shows what arrived while the pointer was down, after the click that its release may cause. */
function release() {
  setTimeout(() => {
    const regions = waiting;
    isPressed = false;
    waiting = {};
    swap(regions);
  });
}

function open() {
  if (stream || !document.body.dataset.live) return;
  stream = new EventSource(document.body.dataset.live);
  stream.addEventListener("hello", (event) => {
    const { version } = JSON.parse(event.data);
    if (version !== document.body.dataset.version) location.reload();
    else setStatus("on", "live");
  });
  stream.addEventListener("regions", (event) => {
    const { regions, stale } = JSON.parse(event.data);
    swap(regions);
    if (stale) setStatus("stale", "the store does not answer");
    else setStatus("on", "live");
  });
  stream.addEventListener("ended", (event) => {
    const { why } = JSON.parse(event.data);
    close();
    if (why === "unauthorized") location.reload();
    else if (why === "closed") setTimeout(open, 2000);
    else setStatus("off", "gone");
  });
  stream.onerror = () => {
    setStatus("off", "reconnecting");
    if (stream && stream.readyState === EventSource.CLOSED) {
      close();
      void recover();
    }
  };
}

/** Follows a refused stream up: a session that has ended leads to the login page, anything else is tried again. */
async function recover() {
  const answer = new AbortController();
  try {
    const { status } = await fetch(document.body.dataset.live ?? "", { signal: answer.signal });
    if (status === 401 || status === 403) {
      location.reload(); // The server sends a page without a session to the login page, and from there back here.
      return;
    }
  } catch {
    // No network, or no server.
  } finally {
    answer.abort();
  }
  setTimeout(() => document.visibilityState === "visible" && open(), 5000);
}

function close() {
  stream?.close();
  stream = null;
}

/** Follows the page while it is visible. A hidden tab needs no connection, of which a browser has few. */
export function followPage() {
  const follow = () => (document.visibilityState === "visible" ? open() : (close(), setStatus("off", "not live")));
  document.addEventListener("visibilitychange", follow);
  window.addEventListener("pagehide", close);
  window.addEventListener("pointerdown", () => { isPressed = true; }, { capture: true });
  for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, release, { capture: true });
  window.addEventListener("blur", (event) => event.target === window && release(), { capture: true });
  window.addEventListener("pageshow", (event) => event.persisted && follow());
  follow();
}
