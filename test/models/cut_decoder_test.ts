/** A decoder cut at its attentions gives each row what the whole graphs give it, as transformers' own code is exported. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/backend/backend.ts";
import { CpuBackend } from "../../src/backend/cpu.ts";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import { CutDecoder, type DecoderGraphs } from "../../src/models/encoder_decoder/cut_decoder.ts";
import { FolderFiles } from "../../src/onnx/external_data.ts";
import { keepOutputs } from "../../src/onnx/if_branch.ts";
import { openSession, type Session, Tensor, type Tensors } from "../../src/onnx/ort.ts";
import { readModel } from "../../src/onnx/proto_read.ts";
import { countCalls } from "../fixtures/count_calls.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";

const EXPORTS = fileURLToPath(new URL("../fixtures/exports", import.meta.url));
const NUM_PLACES = 12;
const WIDTH = 16;
const HEADS = 2;
const LAYERS = 2;
const VOCAB_SIZE = 53;
const TOLERANCE = 1e-4;

interface Text {
  readonly hidden: Float32Array;
  readonly tokens: readonly number[];
}

/** The logits after each token of a text, by the whole graphs. */
async function runWhole(project: Session, step: Session, text: Text): Promise<Float32Array[]> {
  const encoder_hidden_states = new Tensor("float32", text.hidden, [1, NUM_PLACES, WIDTH]);
  const cross = renamed(await project.run({ encoder_hidden_states }));
  let own: Tensors = Object.fromEntries(
    Array.from({ length: LAYERS }, (_, layer) =>
      ["key", "value"].map((half) => [
        `past_key_values.${layer}.decoder.${half}`,
        new Tensor("float32", new Float32Array(0), [1, HEADS, 0, WIDTH / HEADS]),
      ])).flat(),
  );
  const logits: Float32Array[] = [];
  for (const token of text.tokens) {
    const input_ids = new Tensor("int64", BigInt64Array.of(BigInt(token)), [1, 1]);
    const { logits: row, ...present } = await step.run({ input_ids, ...own, ...cross });
    own = renamed(present);
    logits.push(Float32Array.from(row!.data as Float32Array));
  }
  return logits;
}

function renamed(present: Tensors): Tensors {
  return Object.fromEntries(
    Object.entries(present).map(([name, tensor]) => [
      name.replace("present", "past_key_values"),
      tensor,
    ]),
  );
}

async function readRows(backend: Backend, logits: Tensor): Promise<Float32Array[]> {
  const data = backend.kind === "cpu" ? logits.data as Float32Array : await backend.read(logits);
  return Array.from(
    { length: logits.dims[1]! },
    (_, row) => data.slice(row * VOCAB_SIZE, (row + 1) * VOCAB_SIZE),
  );
}

function assertClose(got: Float32Array, want: Float32Array, what: string): void {
  want.forEach((x, i) => {
    assert.ok(
      Math.abs(got[i]! - x) <= TOLERANCE * (1 + Math.abs(x)),
      `${what}: ${got[i]} for ${x}`,
    );
  });
}

async function readGraphs(
  files: FolderFiles,
  attention: string,
): Promise<DecoderGraphs> {
  const step = await readModel(files, `whisper_step_${attention}_17.onnx`);
  return {
    project: await readModel(files, `whisper_project_${attention}_17.onnx`),
    step: keepOutputs(step, ["logits"]),
  };
}

/** Two texts of different ages in one step, the older one's first tokens at once, slots used again. */
async function assertSameAsWhole(backend: Backend, attention: string): Promise<void> {
  const open = async (part: string) =>
    await openSession(await Deno.readFile(`${EXPORTS}/whisper_${part}_${attention}_17.onnx`));
  const normal = makeNormal(3);
  const texts = [[51, 4, 17, 9, 30, 2, 44], [51, 8, 8, 21]].map((tokens): Text => ({
    hidden: new Float32Array(NUM_PLACES * WIDTH).map(() => normal()),
    tokens,
  }));
  const [project, step] = [await open("project"), await open("step")];
  const want: Float32Array[][] = [];
  for (const text of texts) want.push(await runWhole(project, step, text));

  await using files = new FolderFiles(EXPORTS);
  const options = { contextLength: 24, numPlaces: NUM_PLACES, maxRows: 3, maxInputs: 2 };
  const decoder = await CutDecoder.open(await readGraphs(files, attention), {
    ...{ backend, files },
    ...options,
  });
  assert.ok(decoder instanceof CutDecoder, JSON.stringify(decoder));
  const [older, younger] = texts as [Text, Text];
  // Somebody else was in the older one's slot before.
  const both = Float32Array.of(...younger.hidden, ...older.hidden);
  await decoder.keep(new Tensor("float32", both, [2, NUM_PLACES, WIDTH]), [2, 0]);
  await decoder.keep(new Tensor("float32", older.hidden, [1, NUM_PLACES, WIDTH]), [2]);

  const prompt = { slot: 2, tokens: older.tokens.slice(0, 3), position: 0 };
  const [first] = await readRows(backend, await decoder.step([prompt]));
  assertClose(first!, want[0]![2]!, "three tokens at once");
  await decoder.keep(new Tensor("float32", younger.hidden, [1, NUM_PLACES, WIDTH]), [0]);
  for (let i = 0; i < younger.tokens.length; i++) {
    const rows = [
      { slot: 0, tokens: [younger.tokens[i]!], position: i },
      { slot: 2, tokens: [older.tokens[i + 3]!], position: i + 3 },
    ];
    const got = await readRows(backend, await decoder.step(rows));
    assertClose(got[0]!, want[1]![i]!, `younger, token ${i}`);
    assertClose(got[1]!, want[0]![i + 3]!, `older, token ${i + 3}`);
  }
  await decoder.release();
}

for (const attention of ["sdpa", "eager"]) {
  const name = `CutDecoder gives rows of different ages what the whole graphs give, ${attention}`;
  Deno.test(`${name}, on the CPU`, () => assertSameAsWhole(new CpuBackend(), attention));
  gpuTest(`${name}, on WebGPU`, async (gpu) => {
    await assertSameAsWhole(await WebGpuBackend.create(gpu), attention);
  });
}

gpuTest("CutDecoder.step() waits for nothing on the GPU", async (gpu) => {
  await using files = new FolderFiles(EXPORTS);
  const backend = await WebGpuBackend.create(gpu);
  const options = { contextLength: 24, numPlaces: NUM_PLACES, maxRows: 1, maxInputs: 1 };
  const decoder = await CutDecoder.open(await readGraphs(files, "sdpa"), {
    ...{ backend, files },
    ...options,
  });
  assert.ok(decoder instanceof CutDecoder);
  const hidden = new Float32Array(NUM_PLACES * WIDTH).fill(1);
  await decoder.keep(new Tensor("float32", hidden, [1, NUM_PLACES, WIDTH]), [0]);
  using map = countCalls(GPUBuffer.prototype, "mapAsync");
  const logits = await decoder.step([{ slot: 0, tokens: [51], position: 0 }]);
  assert.equal(map.count, 0);
  await backend.read(logits);
  assert.equal(map.count, 1);
  await decoder.release();
});

Deno.test("CutDecoder.open() makes room for as many rows as a buffer of the device holds", async () => {
  class SmallBackend extends CpuBackend {
    // A row takes 2 KiB at an attention to its own 24 tokens, in blocks of 16.
    override readonly maxBufferBytes = 5000;
  }
  await using files = new FolderFiles(EXPORTS);
  const options = { contextLength: 24, numPlaces: NUM_PLACES, maxRows: 8, maxInputs: 2 };
  const decoder = await CutDecoder.open(await readGraphs(files, "sdpa"), {
    ...{ backend: new SmallBackend(), files },
    ...options,
  });
  assert.ok(decoder instanceof CutDecoder);
  assert.equal(decoder.maxRows, 2);
  await decoder.release();
});

Deno.test("CutDecoder.open() says why a graph is not cut", async () => {
  await using files = new FolderFiles(EXPORTS);
  const { project, step } = await readGraphs(files, "sdpa");
  const nodes = step.graph.nodes.map((node) =>
    node.opType === "Softmax" ? { ...node, opType: "LogSoftmax" } : node
  );
  const options = { contextLength: 24, numPlaces: NUM_PLACES, maxRows: 1, maxInputs: 1 };
  const opened = await CutDecoder.open(
    { project, step: { ...step, graph: { ...step.graph, nodes } } },
    { backend: new CpuBackend(), files, ...options },
  );
  assert.deepEqual(opened, { refused: "It has no attention to an encoder known here." });
});
