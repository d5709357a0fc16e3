import assert from "node:assert/strict";
import { chooseBodyBytes } from "../../../src/cli/flag_values.ts";

const GIB = 2 ** 30;

Deno.test("chooseBodyBytes() is an eighth of the memory, from 128 MiB to 1 GiB", () => {
  assert.equal(chooseBodyBytes(Infinity), GIB);
  assert.equal(chooseBodyBytes(16 * GIB), GIB);
  assert.equal(chooseBodyBytes(4 * GIB), GIB / 2);
  assert.equal(chooseBodyBytes(GIB / 2), 128 * 2 ** 20);
});
