import assert from "node:assert/strict";
import { type InferencePath, requireEndpoint, requireModelName } from "../../../src/wire/models.ts";
import { ANY_NAME, MODEL_KINDS, type ModelKind } from "../../../src/base/config.ts";

const PATHS: readonly InferencePath[] = [
  "/chat/completions",
  "/audio/speech",
  "/audio/transcriptions",
  "/audio/translations",
  "/images/remove_background",
  "/embeddings",
  "/rerank",
];

function servedBy(kind: ModelKind): InferencePath[] {
  return PATHS.filter((path) => {
    try {
      requireEndpoint({ id: "m", aliases: [], kind }, path);
      return true;
    } catch {
      return false;
    }
  });
}

Deno.test("requireEndpoint() allows each kind the endpoints of the specification", () => {
  const served = Object.fromEntries(MODEL_KINDS.map((kind) => [kind, servedBy(kind)]));
  assert.deepEqual(served, {
    text: ["/chat/completions"],
    vision: ["/chat/completions"],
    ocr: ["/chat/completions"],
    asr: ["/chat/completions", "/audio/transcriptions", "/audio/translations"],
    tts: ["/audio/speech"],
    matting: ["/images/remove_background"],
    embedding: ["/embeddings"],
    rerank: ["/rerank"],
  });
});

Deno.test("requireEndpoint() names the model, its kind and its endpoints", () => {
  assert.throws(
    () => requireEndpoint({ id: "ears", aliases: [], kind: "asr" }, "/rerank"),
    {
      kind: "unsupported_by_model",
      message: "The loaded model ears (asr) does not serve /rerank; it serves " +
        "/chat/completions, /audio/transcriptions, /audio/translations, /realtime.",
    },
  );
});

Deno.test("requireModelName() takes every name with --any-model, and names the flags otherwise", () => {
  const model = { id: "m", aliases: [ANY_NAME], kind: "text" } as const;
  for (const name of ["gpt-4o-mini", "claude-haiku", "x/y"]) requireModelName(model, name);
  assert.throws(
    () => requireModelName({ ...model, aliases: [] }, "tts-1"),
    /"tts-1" is not loaded; this server has m\..*--model-alias.*--any-model/,
  );
});

Deno.test("requireModelName() accepts only the id and every alias", () => {
  const model = { id: "owner/Name", aliases: ["name"], kind: "text" } as const;
  requireModelName(model, "owner/Name");
  requireModelName(model, "name");
  for (const name of ["Name", "owner/name", "", "name "]) {
    assert.throws(() => requireModelName(model, name), { kind: "model_not_found", param: "model" });
  }
});
