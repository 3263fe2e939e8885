/** Load a set, correct a million rows; prints JSON.  node bench.mjs DIRECTORY ID… */

import { load } from "./dist/index.js";

const [directory, ...ids] = process.argv.slice(2);
const begun = process.cpuUsage();
const started = performance.now();
const set = await load(directory);
const load_seconds = (performance.now() - started) / 1000;
const used = process.cpuUsage(begun);
const peak_mb = process.resourceUsage().maxRSS / 1024;
const ROWS = 1_000_000;
let total = 0;
const before = process.cpuUsage();
for (let row = 0; row < ROWS; row++) total += set.correct({ item_id: ids[row % ids.length], logit: (row % 97) / 20 - 2.4 });
const spent = process.cpuUsage(before);
const one_correction_us = (spent.user + spent.system) / ROWS;
console.log(JSON.stringify({ load_seconds, load_cpu_seconds: (used.user + used.system) / 1e6, peak_mb, one_correction_us, mean: total / ROWS }));
