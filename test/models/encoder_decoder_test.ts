/**
 * A decoder cut at its attentions gives each row the same result as the whole graphs, which
 * transformers' own code exported.
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { EncoderDecoder, type InputEncoder } from "../../src/decoder/encoder_decoder.ts";
import { openEncoderDecoder } from "../../src/decoder/open_encoder_decoder.ts";
import { EncoderError, GREEDY, type StepBatch } from "../../src/decoder/decoder.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { type DecoderGraphs, keepOutputs } from "../../src/graph/cut/merged_decoder.ts";
import { type GraphSession, openSession, Tensor, type Tensors } from "../../src/device/ort/ort.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { countCalls } from "../fixtures/engine/count_calls.ts";
import { forward } from "../fixtures/engine/steps.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";

const EXPORTS = fileURLToPath(new URL("../fixtures/graphs/exports", import.meta.url));
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
async function runWhole(
  project: GraphSession,
  step: GraphSession,
  text: Text,
): Promise<Float32Array[]> {
  const encoder_hidden_states = new Tensor("float32", text.hidden, [
    1,
    text.hidden.length / WIDTH,
    WIDTH,
  ]);
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

/** Input of these tests' encoder. */
interface Input {
  readonly hidden: Float32Array;
}

/** Returns given outputs in place of a real encoder. */
class GivenEncoder implements InputEncoder<Input> {
  readonly maxInputs = 2;
  /** Number of inputs per call. */
  readonly calls: number[] = [];

  isAlike(input: Input, other: Input): boolean {
    return input.hidden.length === other.hidden.length;
  }

  encode(inputs: readonly Input[]): Promise<Tensor> {
    this.calls.push(inputs.length);
    if (inputs.some(({ hidden }) => hidden.length === 0)) return Promise.reject(new Error("empty"));
    const hidden = Float32Array.from(inputs.flatMap(({ hidden }) => [...hidden]));
    return Promise.resolve(
      new Tensor("float32", hidden, [inputs.length, inputs[0]!.hidden.length / WIDTH, WIDTH]),
    );
  }
}

interface Row {
  readonly input: Input;
  /** The sequence's row of blocks in the cache. */
  readonly row: number;
  readonly tokens: readonly number[];
  readonly position: number;
}

const BLOCKS_PER_ROW = 2;

function makeStep(rows: readonly Row[]): StepBatch {
  const starts = [0];
  for (const { tokens } of rows) starts.push(starts.at(-1)! + tokens.length);
  return {
    sequences: rows.map(({ row, input }) => ({
      sequenceId: row,
      encoderInput: input,
      sample: { params: GREEDY, tokenIndex: 0, topLogprobs: 0 },
    })),
    numTokens: starts.at(-1)!,
    tokenIds: Int32Array.from(rows.flatMap(({ tokens }) => tokens)),
    positions: Int32Array.from(
      rows.flatMap(({ tokens, position }) => tokens.map((_, i) => position + i)),
    ),
    queryStarts: Int32Array.from(starts),
    kvLengths: Int32Array.from(rows, ({ tokens, position }) => position + tokens.length),
    blockTables: Int32Array.from(rows.flatMap(({ row }) => [2 * row, 2 * row + 1])),
    maxBlocksPerSequence: BLOCKS_PER_ROW,
  };
}

async function open(
  graphs: DecoderGraphs,
  { backend, files, maxSequences, encoder = new GivenEncoder() }: {
    readonly backend: Backend;
    readonly files: FolderFiles;
    readonly maxSequences: number;
    readonly encoder?: GivenEncoder;
  },
): Promise<EncoderDecoder<Input>> {
  const sizes = { contextLength: 24, numPositions: NUM_PLACES };
  const opened = await openEncoderDecoder(graphs, {
    backend,
    files,
    encoder,
    maxSequences,
    ...sizes,
  });
  assert.ok(opened instanceof EncoderDecoder, JSON.stringify(opened));
  return opened;
}

/**
 * Compares two texts that share steps with the whole graphs. The first three tokens of the older
 * text run in one step. One text attends to fewer positions than the other, and there are more
 * inputs than slots.
 */
async function assertSameAsWhole(backend: Backend, attention: string): Promise<void> {
  const openGraph = async (part: string) =>
    await openSession(await Deno.readFile(`${EXPORTS}/whisper_${part}_${attention}_17.onnx`));
  const normal = makeNormal(3);
  const drawn = (numPositions: number) =>
    new Float32Array(numPositions * WIDTH).map(() => normal());
  const texts: Text[] = [
    { tokens: [51, 4, 17, 9, 30, 2, 44], hidden: drawn(NUM_PLACES) },
    { tokens: [51, 8, 8, 21], hidden: drawn(NUM_PLACES - 5) },
    { tokens: [51, 2], hidden: drawn(NUM_PLACES) },
  ];
  const [project, step] = [await openGraph("project"), await openGraph("step")];
  const want: Float32Array[][] = [];
  for (const text of texts) want.push(await runWhole(project, step, text));

  await using files = new FolderFiles(EXPORTS);
  const encoder = new GivenEncoder();
  const graphs = await readGraphs(files, attention);
  const decoder = await open(graphs, { backend, files, maxSequences: 2, encoder });
  const [older, younger, other] = texts as [Text, Text, Text];
  const makeLogits = async (...rows: Row[]) =>
    await readRows(backend, (await forward(decoder, makeStep(rows)))!);

  const prompt = { input: older, row: 1, tokens: older.tokens.slice(0, 3), position: 0 };
  const [first] = await makeLogits(prompt);
  assertClose(first!, want[0]![2]!, "three tokens at once");
  for (let i = 0; i < younger.tokens.length; i++) {
    const got = await makeLogits(
      { input: younger, row: 0, tokens: [younger.tokens[i]!], position: i },
      { input: older, row: 1, tokens: [older.tokens[i + 3]!], position: i + 3 },
    );
    assertClose(got[0]!, want[1]![i]!, `younger, token ${i}`);
    assertClose(got[1]!, want[0]![i + 3]!, `older, token ${i + 3}`);
  }
  assert.deepEqual(encoder.calls, [1, 1]);
  // A third text takes the slot of one of the two, which is encoded again when it returns.
  const [third] = await makeLogits({ input: other, row: 0, tokens: other.tokens, position: 0 });
  assertClose(third!, want[2]![1]!, "other");
  const again = await makeLogits(
    { input: younger, row: 0, tokens: younger.tokens, position: 0 },
    { input: older, row: 1, tokens: older.tokens.slice(0, 4), position: 0 },
  );
  assertClose(again[0]!, want[1]![3]!, "younger, again");
  assertClose(again[1]!, want[0]![3]!, "older, again");
  assert.deepEqual(encoder.calls, [1, 1, 1, 1]);
  await decoder.dispose();
}

for (const attention of ["sdpa", "eager"]) {
  const name =
    `EncoderDecoder gives sequences of different ages what the whole graphs give, ${attention}`;
  Deno.test(`${name}, on the CPU`, () => assertSameAsWhole(new CpuBackend(), attention));
  gpuTest(`${name}, on WebGPU`, async (gpu) => {
    await assertSameAsWhole(await WebGpuBackend.create(gpu), attention);
  });
}

gpuTest("EncoderDecoder.forward() waits for nothing on the GPU", async (gpu) => {
  await using files = new FolderFiles(EXPORTS);
  const backend = await WebGpuBackend.create(gpu);
  const decoder = await open(await readGraphs(files, "sdpa"), { backend, files, maxSequences: 1 });
  const input = { hidden: new Float32Array(NUM_PLACES * WIDTH).fill(1) };
  using map = countCalls(GPUBuffer.prototype, "mapAsync");
  const logits = await forward(decoder, makeStep([{ input, row: 0, tokens: [51], position: 0 }]));
  assert.equal(map.count, 0);
  await backend.read(logits!);
  assert.equal(map.count, 1);
  await decoder.dispose();
});

Deno.test("EncoderDecoder reports the sequences whose inputs cannot be encoded", async () => {
  await using files = new FolderFiles(EXPORTS);
  const graphs = await readGraphs(files, "sdpa");
  const decoder = await open(graphs, { backend: new CpuBackend(), files, maxSequences: 3 });
  const good = { hidden: new Float32Array(NUM_PLACES * WIDTH).fill(1) };
  const bad = { hidden: new Float32Array(0) };
  const row = { tokens: [51], position: 0 };
  const rows = [{ ...row, input: bad, row: 0 }, { ...row, input: good, row: 1 }];
  const failing = decoder.run(makeStep([...rows, { ...row, input: bad, row: 2 }]));
  await assert.rejects(failing, (error) => {
    assert.ok(error instanceof EncoderError);
    assert.deepEqual(error.sequenceIds, [0, 2]);
    assert.equal((error.cause as Error).message, "empty");
    return true;
  });
  assert.equal((await decoder.run(makeStep(rows.slice(1)))).length, 1);
  await decoder.dispose();
});

Deno.test("openEncoderDecoder() allocates as many sequences as a buffer of the device can hold", async () => {
  class SmallBackend extends CpuBackend {
    // A sequence needs 2 KiB for an attention to its own 24 tokens, in blocks of 16.
    override readonly maxBufferBytes = 5000;
  }
  await using files = new FolderFiles(EXPORTS);
  const graphs = await readGraphs(files, "sdpa");
  const decoder = await open(graphs, { backend: new SmallBackend(), files, maxSequences: 8 });
  assert.equal(decoder.limits.maxSequences, 2);
  await decoder.dispose();
});

Deno.test("openEncoderDecoder() gives the reason if a graph is not cut", async () => {
  await using files = new FolderFiles(EXPORTS);
  const { project, step } = await readGraphs(files, "sdpa");
  const nodes = step.graph.nodes.map((node) =>
    node.opType === "Softmax" ? { ...node, opType: "LogSoftmax" } : node
  );
  const opened = await openEncoderDecoder(
    { project, step: { ...step, graph: { ...step.graph, nodes } } },
    {
      ...{ backend: new CpuBackend(), files, encoder: new GivenEncoder() },
      ...{ contextLength: 24, numPositions: NUM_PLACES, maxSequences: 1 },
    },
  );
  assert.deepEqual(opened, { refused: "It has no attention to an encoder that Hearth knows." });
});
