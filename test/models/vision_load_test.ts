/** Vision models with parts that do not match are refused when they are loaded, with a reason. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import type { StartupError } from "../../src/base/errors.ts";
import { configureLog } from "../../src/base/log.ts";
import { decodeImage } from "../../src/media/image.ts";
import { MediaEncoder } from "../../src/models/media_encoder.ts";
import { VisionProcessor } from "../../src/models/images/vision_processor.ts";
import { CapturedStderr } from "../fixtures/servers/capture_stderr.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { GraphBuilder } from "../fixtures/graphs/graph_builder.ts";
import { drawImage } from "../fixtures/models/vision/vision_cases.ts";
import { imageEncoder } from "../fixtures/models/vision/vision_encoders.ts";
import {
  makeVisionFolder,
  TINY,
  type VisionFamily,
} from "../fixtures/models/vision/vision_folder.ts";

type Json = Record<string, unknown>;

async function changeJson(folder: string, name: string, change: (json: Json) => Json) {
  const path = join(folder, name);
  const json = JSON.parse(await Deno.readTextFile(path));
  await Deno.writeTextFile(path, JSON.stringify(change(json)));
}

/** A change of a folder, and the expected error. */
interface Fault {
  readonly family: VisionFamily;
  readonly what: string;
  readonly says: RegExp;
  readonly make: (folder: string) => Promise<void>;
}

const FAULTS: readonly Fault[] = [
  {
    family: "qwen2_5_vl",
    what: "an unknown processor",
    says: /processor_class: want one of Qwen2VLProcessor.*; saw "JanusProcessor"/,
    make: (folder) =>
      changeJson(folder, "preprocessor_config.json", (json) => ({
        ...json,
        processor_class: "JanusProcessor",
      })),
  },
  {
    family: "idefics3",
    what: "a chat template without images",
    says: /does not support images: for a message with an image it renders no "<image>"/,
    make: (folder) =>
      changeJson(folder, "tokenizer_config.json", (json) => ({
        ...json,
        chat_template: "{% for message in messages %}{{ message['role'] }}{% endfor %}",
      })),
  },
  {
    family: "llava_qwen2",
    what: "a processor and an encoder with different numbers of tokens",
    says: /cannot take images: The vision encoder returned 16 rows for 4 image tokens/,
    make: (folder) =>
      changeJson(folder, "processor_config.json", (json) => ({ ...json, patch_size: 28 })),
  },
  {
    family: "llava_qwen2",
    what: "an encoder whose width differs from the decoder's",
    says: /gives rows of 48 numbers, and the decoder takes 32/,
    make: (folder) => {
      const sizes = { ...TINY, decoder: { ...TINY.decoder, hidden: 48 } };
      const graph = imageEncoder(sizes, { patch: 14, side: 56 });
      return Deno.writeFile(join(folder, "onnx/vision_encoder.onnx"), graph);
    },
  },
  {
    family: "gemma4",
    what: "embeddings without the decoder's per-layer inputs",
    says: /embeddings' graph gives no "per_layer_inputs" and the decoder takes float32/,
    make: async (folder) => {
      const graph = new GraphBuilder();
      const { vocab, hidden } = TINY.decoder;
      graph.add("Gather", [graph.weights([vocab, hidden]), "input_ids"], {
        outputs: ["inputs_embeds"],
      });
      const embeddings = graph.build({
        inputs: [["input_ids", "int64", ["batch_size", "sequence_length"]]],
        outputs: [["inputs_embeds", "float32", ["batch_size", "sequence_length", hidden]]],
      });
      await Deno.writeFile(join(folder, "onnx/embed_tokens.onnx"), embeddings);
    },
  },
  {
    family: "qwen2_5_vl",
    what: "a folder without embeddings",
    says: /has no onnx\/embed_tokens\*\.onnx/,
    make: (folder) => Deno.remove(join(folder, "onnx/embed_tokens.onnx")),
  },
];

for (const { family, what, says, make } of FAULTS) {
  Deno.test(`loadVision() refuses ${what}`, async () => {
    await using folder = await makeVisionFolder(family);
    await make(folder.path);
    await assert.rejects(
      openModel(folder.path),
      (error: StartupError) => error.name === "StartupError" && says.test(error.message),
    );
  });
}

Deno.test("MediaEncoder.encode() returns rows in the dtype of the embeddings", async () => {
  await using folder = await makeVisionFolder("llava_qwen2");
  const backend = new CpuBackend();
  const processor = await VisionProcessor.load(folder.path);
  const image = await processor.prepare(await decodeImage(drawImage(0, [56, 56])));
  const rowsAs = async (type: "float32" | "float16") => {
    const encoder = await MediaEncoder.open({
      backend,
      session: await backend.openSession(imageEncoder(TINY, { patch: 14, side: 56 })),
      embeddings: { name: "inputs_embeds", type, shape: ["batch", "tokens", 32] },
      medium: "image",
    });
    const rows = await encoder.encode(image.tensors, 16);
    await encoder.dispose();
    assert.equal(rows.type, type);
    return Float32Array.from(rows.data as Float32Array);
  };
  const [wide, narrow] = [await rowsAs("float32"), await rowsAs("float16")];
  assert.equal(narrow.length, 16 * 32);
  narrow.forEach((value, i) =>
    assert.ok(Math.abs(value - wide[i]!) < 2e-3 * (1 + Math.abs(value)))
  );
});

Deno.test("a vision model without its encoder is served for text, and the log gives the reason", async () => {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  await Deno.remove(join(folder.path, "onnx/vision_encoder.onnx"));
  configureLog({ level: "warn", format: "text" });
  using stderr = new CapturedStderr();
  await using model = await openModel(folder.path);
  configureLog({ level: "error", format: "text" });
  assert.equal(model.kind, "text");
  assert.match(stderr.lines.join("\n"), /served for text only: .*no onnx\/vision_encoder/);
});
