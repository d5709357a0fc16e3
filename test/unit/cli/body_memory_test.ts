import assert from "node:assert/strict";
import { defaultBodyBytes } from "../../../src/cli/flag_values.ts";

const GIB = 2 ** 30;

Deno.test("defaultBodyBytes() is an eighth of the memory, from 128 MiB to 1 GiB", () => {
  assert.equal(defaultBodyBytes(Infinity), GIB);
  assert.equal(defaultBodyBytes(16 * GIB), GIB);
  assert.equal(defaultBodyBytes(4 * GIB), GIB / 2);
  assert.equal(defaultBodyBytes(GIB / 2), 128 * 2 ** 20);
});
