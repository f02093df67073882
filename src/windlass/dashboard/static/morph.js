// @ts-check
/**
 * Changes a part of the page into new HTML with as few edits as possible, so that focus, selection, scroll positions,
 * open details, picked rows and text that somebody is typing stay as they are.
 */

/**
 * Replaces the children of an element.
 * @param {Element} target
 * @param {string} html
 */
export function morph(target, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  morphChildren(target, template.content);
}

/**
 * @param {Node} node
 * @returns {string} what identifies a node among its siblings; empty if nothing does
 */
function keyOf(node) {
  return node instanceof Element ? node.id || node.getAttribute("data-id") || "" : "";
}

/**
 * @param {Node} one
 * @param {Node} other
 */
function isSameKind(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

/**
 * @param {Node} target
 * @param {Node} wanted
 */
function morphChildren(target, wanted) {
  /** @type {Map<string, Node>} */
  const keyed = new Map();
  for (const child of target.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  const wantedKeys = new Set([...wanted.childNodes].map(keyOf).filter(Boolean));
  let current = target.firstChild;
  for (const next of [...wanted.childNodes]) {
    // What is gone from the new version must not be changed into something else, because it may have the focus.
    while (current && keyOf(current) && !wantedKeys.has(keyOf(current))) {
      const gone = current;
      current = current.nextSibling;
      target.removeChild(gone);
    }
    const key = keyOf(next);
    const known = key ? keyed.get(key) : current;
    if (known && isSameKind(known, next)) {
      if (known === current) current = current.nextSibling;
      else target.insertBefore(known, current);
      morphNode(known, next);
    } else {
      target.insertBefore(next, current);
    }
  }
  while (current) {
    const gone = current;
    current = current.nextSibling;
    target.removeChild(gone);
  }
}

/**
 * @param {Node} target
 * @param {Node} wanted
 */
function morphNode(target, wanted) {
  if (target instanceof Element && wanted instanceof Element) {
    if (target.hasAttribute("data-keep")) return;
    morphAttributes(target, wanted);
    if (target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return;
    morphChildren(target, wanted);
  } else if (target.nodeValue !== wanted.nodeValue) {
    target.nodeValue = wanted.nodeValue;
  }
}

/** What people change themselves: whether details are open, and what they typed or picked. */
const OWN = new Set(["open", "value", "checked"]);

/**
 * @param {Element} target
 * @param {Element} wanted
 */
function morphAttributes(target, wanted) {
  const isOwn = target.matches("details, input:not([type=hidden])");
  const isCurrent = target.classList.contains("current");
  for (const { name, value: given } of wanted.attributes) {
    if (isOwn && OWN.has(name)) continue;
    const value = name === "class" && isCurrent ? `${given} current` : given;
    if (target.getAttribute(name) !== value) target.setAttribute(name, value);
  }
  for (const { name } of [...target.attributes]) {
    if (isOwn && OWN.has(name)) continue;
    if (!wanted.hasAttribute(name) && name !== "class") target.removeAttribute(name);
  }
}
