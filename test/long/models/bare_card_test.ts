/**
 * Each built-in model gives the same results as on the CPU on a graphics card with only what WebGPU guarantees: default
 * limits and no f16.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { AsrModel } from "../../../src/models/asr/asr.ts";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../../src/base/config.ts";
import { openFolder } from "../../../src/hub/model_folder.ts";
import type { Model } from "../../../src/models/model.ts";
import { transcribeFile } from "../../fixtures/audio/transcribe.ts";
import { chat, imageMessage } from "../../fixtures/engine/chat.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { embed, openModel, rerank } from "../../fixtures/engine/model.ts";
import { openSynthesizer } from "../../fixtures/engine/open_folder.ts";
import { alphaOfFile, discFile, matte } from "../../fixtures/images/matting.ts";

/** What a model gives: texts, which must be equal, or numbers, and by how much they may differ. */
type Result = readonly string[] | { readonly numbers: ArrayLike<number>; readonly within: number };

const QUESTION = {
  role: "user",
  content: "Tell me a story about a dog and its red ball.",
} as const;

async function speak(backend: Backend): Promise<Float32Array> {
  const { synthesizer } = await openSynthesizer(await openFolder(findFolder("hearth-demo-tts")), {
    backend,
    dtype: "fp32",
    onProgress: () => {},
  });
  try {
    const voice = synthesizer.voices[0]!;
    const tokens = await synthesizer.tokenize("Hello there.", voice);
    const { signal } = new AbortController();
    return await synthesizer.synthesize(tokens, { voice, speed: 1, noiseOffset: 0, signal });
  } finally {
    await synthesizer.dispose();
  }
}

interface Run {
  readonly dtype?: Dtype;
  run(model: Model): Promise<Result>;
}

const RUNS: Readonly<Record<string, Run>> = {
  "hearth-demo-chat": {
    dtype: "q4",
    // The short prompt has few rows, the long one fills several tiles.
    run: async (model) => {
      const long = { ...QUESTION, content: QUESTION.content.repeat(20) };
      const chats = [QUESTION, long].map((each) => chat(model, [each], { maxTokens: 24 }));
      return (await Promise.all(chats)).flatMap(({ texts }) => texts);
    },
  },
  "hearth-demo-vision": {
    run: async (model) => {
      const message = imageMessage(discFile(), "What is in the picture?");
      return (await chat(model, [message], { maxTokens: 24 })).texts;
    },
  },
  "hearth-demo-ocr": {
    run: async (model) => {
      const file = await Deno.readFile(join(findFolder("hearth-demo-ocr"), "golden/receipt.png"));
      return (await chat(model, [imageMessage(file)])).texts;
    },
  },
  "hearth-demo-asr": {
    run: async (model) => {
      const file = await Deno.readFile(new URL("../../fixtures/audio/speech.wav", import.meta.url));
      return [(await transcribeFile(model as AsrModel, file)).text];
    },
  },
  "hearth-demo-embed": {
    run: async (model) => {
      const { rows } = await embed(model, ["A cat sat on the mat.", "Hello"]);
      return { numbers: rows.flatMap((row) => [...row]), within: 1e-3 };
    },
  },
  "hearth-demo-rerank": {
    run: async (model) => {
      const { scores } = await rerank(model, "a cat", ["The cat sleeps.", "Paris is a city."]);
      return { numbers: scores, within: 1e-3 };
    },
  },
  "hearth-demo-matting": {
    run: async (model) => {
      const { data } = await alphaOfFile((await matte(model, discFile())).png);
      return { numbers: data, within: 2 };
    },
  },
};

function findFolder(name: string): string {
  return findModelFolder(name)!;
}

async function runModel(name: string, backend: Backend): Promise<Result> {
  if (name === "hearth-demo-tts") return { numbers: await speak(backend), within: 1e-2 };
  const { dtype = "fp32", run } = RUNS[name]!;
  await using model = await openModel(findFolder(name), { backend, dtype });
  return await run(model);
}

gpuTest(
  "fp16 weights are refused on a card without shader-f16, and the dtypes that it runs are named",
  async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    for (const name of ["hearth-demo-chat", "hearth-demo-embed", "hearth-demo-matting"]) {
      await assert.rejects(openModel(findFolder(name), { backend, dtype: "fp16" }), {
        name: "StartupError",
        message:
          /onnx\/model_fp16\.onnx computes in half precision, .*\(no shader-f16\)\. Choose .*fp32/,
        setting: "dtype",
      });
    }
  },
  { limits: "bare" },
);

gpuTest(
  "steps whose buffers exceed the limits of a card are refused when the model opens",
  async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    // With 200,000 tokens, activations are too large; with 100,000, only the kernels' scratch is.
    for (const maxBatchTokens of [200_000, 100_000]) {
      const opened = openModel(findFolder("hearth-demo-chat"), {
        backend,
        dtype: "q4",
        maxBatchTokens,
      });
      await assert.rejects(opened, { name: "StartupError", setting: "maxBatchTokens" });
    }
  },
  { limits: "bare" },
);

for (const name of [...Object.keys(RUNS), "hearth-demo-tts"]) {
  gpuTest(
    `${name} gives the same results on a card with default limits and no f16 as on the CPU`,
    async (gpu) => {
      assert.deepEqual([gpu.hasF16, gpu.limits.maxStorageBuffersPerShaderStage], [false, 8]);
      const wanted = await runModel(name, new CpuBackend());
      const got = await runModel(name, await WebGpuBackend.create(gpu));
      if (!("numbers" in wanted && "numbers" in got)) return assert.deepEqual(got, wanted);
      assert.equal(got.numbers.length, wanted.numbers.length);
      Array.from(got.numbers).forEach((number, i) => {
        const error = Math.abs(number - wanted.numbers[i]!);
        assert.ok(error <= wanted.within, `number ${i}: ${number}, not ${wanted.numbers[i]}`);
      });
    },
    { limits: "bare" },
  );
}
