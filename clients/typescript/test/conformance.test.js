/** The reader passes the conformance suite of the format, and refuses invalid rows. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { InputError, ParameterSetError, load } from "../dist/index.js";
import { parse } from "../dist/load.js";

const suite = process.env.SLC_OPS_CONFORMANCE ?? fileURLToPath(new URL("../../../conformance", import.meta.url));
const { sets, tolerance } = parse(readFileSync(`${suite}/manifest.json`, "utf8"));
assert.ok(sets.length > 60);

for (const entry of sets) {
  test(`${entry.directory} ${entry.deployment ?? ""}`, async () => {
    const loaded = load(`${suite}/${entry.directory}`, { deployment: entry.deployment });
    if ("error" in entry) return assert.rejects(loaded, ParameterSetError);
    const set = await loaded;
    for (const { probability, ...row } of entry.rows) {
      if (probability === null) assert.throws(() => set.correct(row), InputError);
      else assert.ok(Math.abs(set.correct(row) - probability) <= tolerance, JSON.stringify({ ...row, item_id: String(row.item_id) }));
    }
  });
}

test("bytes from anywhere are the same set", async () => {
  const set = await load(async (name) => new Uint8Array(readFileSync(`${suite}/good/cold-line/${name}`)).buffer);
  assert.equal(set.method, "slc_eb");
  assert.equal(set.knows("item", "a"), true);
  assert.equal(set.knows("item", "A"), false);
  assert.equal(set.knows("user", "a"), false);
});

test("invalid rows are refused", async () => {
  const texts = await load(`${suite}/good/texts`);
  const integers = await load(`${suite}/good/integers`);
  for (const logit of [NaN, Infinity, -Infinity, "0.5", null, undefined]) {
    assert.throws(() => texts.correct({ item_id: "a", logit }), InputError);
  }
  assert.throws(() => texts.correct({ item_id: 17, logit: 0 }), InputError);
  assert.throws(() => texts.correct({ item_id: "\ud800", logit: 0 }), InputError);
  assert.throws(() => texts.correct({ item_id: "a", logit: 0, time: "now" }), InputError);
  for (const id of ["17", 1.5, 2 ** 53, 2n ** 63n]) {
    assert.throws(() => integers.correct({ item_id: id, logit: 0 }), InputError);
  }
  assert.equal(integers.correct({ item_id: 7, logit: 0 }), integers.correct({ item_id: 7n, logit: 0 }));
  assert.equal(texts.correct({ logit: 0 }), texts.correct({ item_id: null, logit: 0 }));
});
