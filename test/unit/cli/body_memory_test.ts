import assert from "node:assert/strict";
import { defaultBodyBytes } from "../../../src/cli/flag_values.ts";

const GIB = 2 ** 30;

Deno.test("defaultBodyBytes() is a share of memory that holds at least one body", () => {
  assert.equal(defaultBodyBytes(Infinity), GIB);
  assert.equal(defaultBodyBytes(16 * GIB), GIB);
  assert.equal(defaultBodyBytes(4 * GIB), GIB / 2);
  assert.equal(defaultBodyBytes(GIB / 2), 128 * 2 ** 20);
});
