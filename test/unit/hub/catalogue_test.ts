import assert from "node:assert/strict";
import { MODEL_KINDS } from "../../../src/base/config.ts";
import { CATALOGUE, HUB_ID_OF_ALIAS } from "../../../src/hub/catalogue.ts";
import { parseHubId } from "../../../src/hub/cache.ts";

Deno.test("CATALOGUE names every alias once, in kebab case, with a hub id", () => {
  const aliases = MODEL_KINDS.flatMap((kind) => Object.entries(CATALOGUE[kind]));
  assert.equal(HUB_ID_OF_ALIAS.size, aliases.length);
  for (const [alias, id] of aliases) {
    assert.match(alias, /^[a-z0-9]+([.-][a-z0-9]+)*$/);
    assert.equal(parseHubId(id)?.revision, "main", id);
  }
});

Deno.test("CATALOGUE has at least the specified number of models of each kind", () => {
  const floor = { text: 2, vision: 6, ocr: 3, asr: 4, tts: 2, matting: 1, embedding: 1, rerank: 1 };
  for (const kind of MODEL_KINDS) {
    assert.ok(Object.keys(CATALOGUE[kind]).length >= floor[kind], kind);
  }
});
