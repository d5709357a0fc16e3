/** What is told from a folder before anything is loaded. */
import assert from "node:assert/strict";
import { StartupError } from "../../src/errors.ts";
import { type ModelFolder, openFolder } from "../../src/hub/model_folder.ts";
import { familyOf } from "../../src/models/families.ts";
import { chooseGraphs } from "../../src/models/graph_choice.ts";
import { findModelFolder, unlessThere } from "../fixtures/goldens.ts";

const KINDS = {
  "hearth-demo-chat": "text",
  "stories260k-llama": "text",
  "chat-gptneo-3m": "text",
  "hearth-demo-asr": "asr",
  "hearth-demo-embed": "embedding",
  "embed-m2v": "embedding",
  "hearth-demo-rerank": "rerank",
  "hearth-demo-matting": "matting",
  "hearth-demo-tts": "tts",
  "hearth-demo-vision": "vision",
  "hearth-demo-ocr": "ocr",
  "selfie-segmentation": "matting",
  "ppocr-v2-mobile": "ocr",
} as const;

for (const [model, kind] of Object.entries(KINDS)) {
  const folder = findModelFolder(model);
  Deno.test({
    name: `familyOf() takes ${model} for ${kind}${
      unlessThere(folder !== undefined, `models/${model}`, "a published folder")
    }`,
    ignore: folder === undefined,
    fn: async () => assert.equal(familyOf(await openFolder(folder!)).kind, kind),
  });
}

Deno.test("familyOf() tells decoders that embed or rerank by their names", () => {
  const config = { model_type: "qwen3", architectures: ["Qwen3ForCausalLM"] };
  const kind = (path: string) => familyOf({ path, files: new Set(), config }).kind;
  assert.equal(kind("onnx-community/Qwen3-Embedding-0.6B-ONNX"), "embedding");
  assert.equal(kind("/c/models--onnx-community--Qwen3-Reranker-0.6B-ONNX/snapshots/5a"), "rerank");
  assert.equal(kind("/home/me/embeddings/Qwen3-0.6B-ONNX"), "text");
});

Deno.test("familyOf() knows a background remover by each name that its family has", () => {
  const kind = (config: Record<string, unknown>) => familyOf(folderOf(config)).kind;
  for (const type of ["isnet", "ormbg", "modnet", "birefnet", "ben", "ben2"]) {
    assert.equal(kind({ model_type: type }), "matting", type);
  }
  for (const name of ["BriaRMBG", "BiRefNet", "BEN_Base", "VitMatteForImageMatting"]) {
    assert.equal(kind({ model_type: "custom", architectures: [name] }), "matting", name);
  }
});

Deno.test("familyOf() knows a speech recogniser with a CTC head by its architecture", () => {
  for (const [type, name] of [["data2vec-audio", "Data2VecAudioForCTC"], ["sew", "SEWForCTC"]]) {
    const { kind, loader } = familyOf(folderOf({ model_type: type, architectures: [name] }));
    assert.deepEqual({ kind, loader }, { kind: "asr", loader: "ctc" }, name);
  }
});

function folderOf(config: Record<string, unknown>, files: readonly string[] = []): ModelFolder {
  return { path: "/models/x", files: new Set(files), config };
}

Deno.test("familyOf() says what it looked at when it cannot tell", () => {
  assert.throws(
    () => familyOf(folderOf({ model_type: "quux", architectures: ["Quux"] }, ["config.json"])),
    (error: Error) =>
      error instanceof StartupError && error.setting === "kind" &&
      /quux.*Quux.*Wanted is its kind/s.test(error.message),
  );
});

Deno.test("chooseGraphs() takes the best dtype there is for the device", () => {
  const folder = folderOf({}, ["onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_q4.onnx"]);
  const choose = (device: "gpuWithF16" | "gpu" | "cpu") =>
    chooseGraphs(folder, [{ name: "model" }], { device }).main.dtype;
  assert.deepEqual([choose("gpuWithF16"), choose("gpu"), choose("cpu")], ["fp16", "q4", "q4"]);
});

Deno.test("chooseGraphs() refuses a dtype the folder lacks and names those it has", () => {
  const folder = folderOf({}, ["onnx/model.onnx", "onnx/model_q4.onnx"]);
  assert.throws(
    () => chooseGraphs(folder, [{ name: "model" }], { device: "cpu", dtype: "fp16" }),
    /fp16: it has fp32, q4/,
  );
});
