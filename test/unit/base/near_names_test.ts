import assert from "node:assert/strict";
import { findNearNames } from "../../../src/base/near_names.ts";

Deno.test("findNearNames() sorts the nearest first and stops at the limit", () => {
  const known = ["model", "mode", "port", "modal"];
  assert.deepEqual(findNearNames("modle", known), ["mode", "model", "modal"]);
  assert.deepEqual(findNearNames("mdel", known, 1), ["model"]);
});

Deno.test("findNearNames() finds a name by a part of it, in any case", () => {
  const known = ["onnx-community/whisper-tiny", "Xenova/modnet"];
  assert.deepEqual(findNearNames("MODNET", known), ["Xenova/modnet"]);
});

Deno.test("findNearNames() finds nothing if no name is near", () => {
  assert.deepEqual(findNearNames("xyzzy", ["port", "model", "address"]), []);
});
