// Returns what is wrong with the page that is open: layout, names and roles, contrast. Runs in the page.
() => {
  const problems = [];
  const visible = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const clean = (text) => (text ?? "").replace(/\s+/g, " ").trim();
  const name = (element) => {
    const own = `${element.tagName.toLowerCase()}${element.id ? "#" + element.id : ""}${element.className?.trim ? "." + element.className.trim().replace(/\s+/g, ".") : ""}`;
    return `${own} "${clean(element.textContent).slice(0, 40)}"`;
  };

  // Layout
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    const widest = [...document.querySelectorAll("body *")]
      .filter((element) => visible(element) && element.getBoundingClientRect().right > width + 1 && !element.closest(".scroll, pre, nav, svg, .only-reader, .skip"))
      .slice(0, 5)
      .map((element) => `${name(element)} to ${Math.round(element.getBoundingClientRect().right)}`);
    problems.push(`the page scrolls sideways: ${document.documentElement.scrollWidth} > ${width}: ${widest.join("; ")}`);
  }

  // Structure
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((heading) => !heading.closest("dialog"));
  if (headings.filter((heading) => heading.tagName === "H1").length !== 1) problems.push("the page needs exactly one h1");
  headings.reduce((before, heading) => {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) problems.push(`heading ${name(heading)} skips a level`);
    return level;
  }, 0);
  for (const landmark of ["header", "nav", "main"]) if (!document.querySelector(landmark)) problems.push(`no <${landmark}>`);
  if (!document.documentElement.lang) problems.push("no language");
  if (!clean(document.title)) problems.push("no title");
  const ids = new Set();
  for (const { id } of document.querySelectorAll("[id]")) {
    if (ids.has(id)) problems.push(`two elements have the id ${id}`);
    ids.add(id);
  }
  for (const image of document.querySelectorAll("img")) if (image.alt === "") problems.push(`image without alt: ${image.src}`);

  // Names
  const labelled = (element) =>
    clean(element.getAttribute("aria-label")) ||
    clean((element.getAttribute("aria-labelledby") ?? "").split(/\s+/).map((id) => document.getElementById(id)?.textContent).join(" "));
  for (const element of document.querySelectorAll("button, a[href], summary, [role=button]")) {
    if (!labelled(element) && !clean(element.textContent) && !clean(element.getAttribute("title"))) problems.push(`no name: ${name(element)} ${element.outerHTML.slice(0, 120)}`);
  }
  for (const element of document.querySelectorAll("input:not([type=hidden], [hidden]), select:not([hidden]), textarea:not([hidden])")) {
    const label = labelled(element) || clean([...(element.labels ?? [])].map((each) => each.textContent).join(" "));
    if (!label) problems.push(`no label: ${element.outerHTML.slice(0, 120)}`);
  }
  for (const drawing of document.querySelectorAll("svg")) {
    if (drawing.closest("[aria-hidden=true]") || drawing.parentElement?.closest("svg")) continue;
    if (drawing.getAttribute("role") !== "img" && drawing.getAttribute("role") !== "group" && drawing.getAttribute("role") !== "graphics-document") problems.push(`drawing without role: ${drawing.outerHTML.slice(0, 120)}`);
    else if (!labelled(drawing) && !clean(drawing.querySelector("title")?.textContent)) problems.push(`drawing without a name: ${drawing.outerHTML.slice(0, 120)}`);
  }

  // Contrast
  const parse = (text) => {
    const numbers = (text.match(/[\d.]+/g) ?? []).map(Number);
    if (text.startsWith("color(srgb")) return [numbers[0] * 255, numbers[1] * 255, numbers[2] * 255, numbers[3] ?? 1];
    return [numbers[0] ?? 0, numbers[1] ?? 0, numbers[2] ?? 0, numbers.length > 3 ? numbers[3] : text === "transparent" ? 0 : 1];
  };
  const blend = (over, under) => [0, 1, 2].map((part) => over[part] * over[3] + under[part] * (1 - over[3])).concat(1);
  const backdrop = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reverse().reduce((under, over) => blend(over, under), [255, 255, 255, 1]);
  };
  const luminance = (color) => {
    const [red, green, blue] = color.slice(0, 3).map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const reported = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!clean(walker.currentNode.data) || !element || !visible(element)) continue;
    if (element.closest("title, script, style, option, [disabled], .only-reader, .skip")) continue;
    const style = getComputedStyle(element);
    const under = backdrop(element);
    const color = blend(parse(element.closest("svg") ? style.fill : style.color), under);
    const [light, dark] = [luminance(color), luminance(under)].sort((one, other) => other - one);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const wanted = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const key = `${style.color} on ${under}`;
    if (ratio < wanted && !reported.has(key)) {
      reported.add(key);
      problems.push(`contrast ${ratio.toFixed(2)} of ${name(element)}: ${key}`);
    }
  }
  return problems;
};
