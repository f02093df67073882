// @ts-check
/** Starts what the page needs: live updates, the ends of outputs, ages of times, keys, the palette, and the switches in the header. */

import { bindCharts } from "./charts.js";
import { bindForms } from "./again.js";
import { followPage } from "./live.js";
import { bindKeys } from "./keys.js";
import { followOutputs } from "./output.js";
import { bindPalette } from "./palette.js";
import { bindPreferences } from "./preferences.js";
import { keepAges } from "./times.js";
import { bindTables } from "./tables.js";
import { bindViews } from "./views.js";

document.documentElement.classList.add("js");
keepAges();
bindPreferences();
bindTables();
bindViews();
bindPalette();
bindKeys();
bindForms();
bindCharts();
followOutputs();
followPage();
document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
