/** Folders in onnxruntime-genai's layout give the same answers as in transformers.js's layout. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { loadModel } from "../../src/models/load/load.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import type { Model } from "../../src/models/model.ts";
import { chat } from "../fixtures/engine/chat.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { openModel } from "../fixtures/engine/model.ts";

const DEMO = findModelFolder("hearth-demo-chat")!;
const MESSAGES = [{ role: "user", content: "What is the capital of France?" }] as const;

async function open(folder: string): Promise<Model & AsyncDisposable> {
  const model = await loadModel({
    model: { id: "test", aliases: [], ownedBy: "hearth", folder },
    engine: { prefixCache: true, cpuThreads: 1 },
    backend: new CpuBackend(),
    onProgress: () => {},
  });
  return Object.assign(model, { [Symbol.asyncDispose]: () => model.dispose() });
}

/** The `genai_config.json` of the built-in model. */
function genaiConfig(): unknown {
  const config = JSON.parse(Deno.readTextFileSync(join(DEMO, "config.json")));
  const generation = JSON.parse(Deno.readTextFileSync(join(DEMO, "generation_config.json")));
  return {
    model: {
      type: config.model_type,
      bos_token_id: config.bos_token_id,
      eos_token_id: generation.eos_token_id ?? config.eos_token_id,
      context_length: config.max_position_embeddings,
      vocab_size: config.vocab_size,
      decoder: { filename: "model.onnx", hidden_size: config.hidden_size },
    },
  };
}

async function copyTo(folder: string, dtype: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    await Deno.copyFile(join(DEMO, name), join(folder, name));
  }
  await Deno.writeTextFile(join(folder, "genai_config.json"), JSON.stringify(genaiConfig()));
  await Deno.copyFile(join(DEMO, `onnx/model${dtype}.onnx`), join(folder, "model.onnx"));
}

Deno.test("a repository of onnxruntime-genai without config.json answers like the same model in another layout", async () => {
  const folder = await Deno.makeTempDir({ prefix: "hearth-genai-" });
  try {
    await copyTo(join(folder, "cpu_and_mobile/cpu-int4-rtn-block-32-acc-level-4"), "_q4");
    await copyTo(join(folder, "gpu/gpu-int4-rtn-block-32"), "_q4f16");
    await using model = await open(folder);
    await using demo = await openModel(DEMO, { dtype: "q4" });
    assert.deepEqual([model.kind, model.dtype], ["text", "q4"]);
    assert.equal(model.contextLength, demo.contextLength);
    const [seen, wanted] = [await chat(model, MESSAGES), await chat(demo, MESSAGES)];
    assert.deepEqual(seen.texts, wanted.texts);
    assert.deepEqual(seen.reasons, ["stop"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

const root = findModelFolder("tiny/genai-root");
Deno.test({
  name: `a folder with genai_config.json and its graph at the root is served${
    unlessThere(
      root !== undefined,
      "models/tiny/genai-root",
      "what onnxruntime-genai's builder wrote",
    )
  }`,
  ignore: root === undefined,
  fn: async () => {
    await using model = await open(root!);
    const { usage } = await chat(model, MESSAGES, { maxTokens: 4, stop: [] });
    assert.equal(usage.completionTokens, 4);
  },
});
