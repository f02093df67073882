// @ts-check
/** Saved views of the page Tasks: named filters, kept in this browser. */

/** @typedef {{ name: string, q: string }} View */

const OLD_KEY = "windlass.views";

/** @returns {string} where the views of this dashboard are: several may share a host, under different paths */
function key() {
  return `${OLD_KEY} ${new URL(document.body.dataset.root ?? "./", location.href).pathname}`;
}

/** @returns {View[]} */
function read() {
  try {
    const found = JSON.parse(localStorage.getItem(key()) ?? localStorage.getItem(OLD_KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((view) => typeof view?.name === "string" && typeof view?.q === "string") : [];
  } catch {
    return []; // Storage is off, or somebody else wrote there.
  }
}

/** @param {View[]} views */
function write(views) {
  try {
    localStorage.setItem(key(), JSON.stringify(views.slice(0, 30)));
  } catch {
    // Storage is off or full: the view is not kept.
  }
}

/** @param {Element} list */
function draw(list) {
  for (const old of list.querySelectorAll("[data-own]")) old.remove();
  const q = new URLSearchParams(location.search).get("q") ?? "";
  for (const view of read()) {
    const link = document.createElement("a");
    link.className = "chip";
    link.dataset.own = "";
    link.href = `?q=${encodeURIComponent(view.q)}`;
    link.title = view.q;
    link.textContent = view.name;
    if (view.q === q) link.setAttribute("aria-current", "true");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "button subtle";
    remove.dataset.own = "";
    remove.textContent = "×";
    remove.setAttribute("aria-label", `Remove the view ${view.name}`);
    remove.addEventListener("click", () => {
      write(read().filter((each) => each.name !== view.name));
      draw(list);
    });
    list.append(link, remove);
  }
}

/** Shows the saved views and saves the current filter under a name. */
export function bindViews() {
  const list = document.getElementById("views");
  const form = /** @type {HTMLFormElement | null} */ (document.getElementById("save-view"));
  if (!list || !form) return;
  draw(list);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = String(new FormData(form).get("name") ?? "").trim();
    const q = new URLSearchParams(location.search).get("q") ?? "";
    if (!name) return;
    write([...read().filter((view) => view.name !== name), { name, q }]);
    form.reset();
    form.closest("details")?.removeAttribute("open");
    draw(list);
  });
}
