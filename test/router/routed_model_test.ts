import assert from "node:assert/strict";
import type { ModelKind } from "../../src/base/config.ts";
import type { HearthError } from "../../src/base/errors.ts";
import { chooseModel, type RoutedModel } from "../../src/router/routed_model.ts";

function model(id: string, kind: ModelKind | undefined, aliases: string[] = []): RoutedModel {
  return { id, kind, aliases, ownedBy: "test", args: [] };
}

const MODELS = [
  model("chat", "text", ["gpt"]),
  model("eyes", "vision"),
  model("ears", "asr", ["whisper-1"]),
  model("mouth", "tts", ["*"]),
  model("vectors", "embedding", ["vectors", "chat"]),
];

Deno.test("chooseModel() chooses by name, then by alias, then the model that answers to every name", () => {
  for (
    const [name, id] of [
      ["chat", "chat"],
      ["gpt", "chat"],
      ["whisper-1", "ears"],
      ["gpt-5", "mouth"],
    ] as const
  ) assert.equal(chooseModel(MODELS, { name, path: "/chat/completions" }).id, id);
  const kinds = [model("chat", "text"), model("ears", "asr")];
  assert.throws(
    () => chooseModel(kinds, { name: "gpt", path: "/chat/completions" }),
    (error: HearthError) =>
      error.kind === "model_not_found" && error.message.includes("ears (asr)"),
  );
});

Deno.test("chooseModel() chooses the only model that serves a path if none is named", () => {
  for (
    const [path, id] of [
      ["/audio/speech", "mouth"],
      ["/audio/voices", "mouth"],
      ["/audio/transcriptions", "ears"],
      ["/embed", "vectors"],
      ["/v2/embed", "vectors"],
      ["/", "vectors"],
      ["/completions", "chat"],
    ] as const
  ) assert.equal(chooseModel(MODELS, { name: undefined, path }).id, id);
  const refusal = (path: string) => {
    try {
      chooseModel(MODELS, { name: undefined, path });
    } catch (error) {
      return (error as HearthError).kind;
    }
    return undefined;
  };
  assert.equal(refusal("/chat/completions"), "invalid_value");
  assert.equal(refusal("/info"), "invalid_value");
  assert.equal(refusal("/rerank"), "unsupported_by_model");
  assert.equal(refusal("/nothing"), "unsupported_by_model");
  // The request may mean a model whose kind is not known yet.
  const withUnknown = [...MODELS, model("new", undefined)];
  assert.equal(chooseModel(withUnknown, { name: undefined, path: "/rerank" }).id, "new");
});
