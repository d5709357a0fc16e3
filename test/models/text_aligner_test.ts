/**
 * The alignment of a text with the encoder's output, compared with the attention weights that ONNX Runtime computes
 * from a whole graph.
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { LEAST_DEVIATION } from "../../kernels/alignment/alignment.ts";
import type { Backend } from "../../src/device/backend.ts";
import type { NodeHeads } from "../../src/device/encoder_attention.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { EncoderDecoder } from "../../src/decoder/encoder_decoder.ts";
import { openEncoderDecoder } from "../../src/decoder/open_encoder_decoder.ts";
import { GREEDY, type StepBatch } from "../../src/decoder/decoder.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { keepOutputs } from "../../src/graph/cut/merged_decoder.ts";
import { type GraphSession, Tensor, type Tensors } from "../../src/device/ort/ort.ts";
import type { ModelProto } from "../../src/graph/file/proto.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { makeValueInfo } from "../../src/graph/file/proto_codec.ts";
import { forward } from "../fixtures/engine/steps.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";

const EXPORTS = fileURLToPath(new URL("../fixtures/graphs/exports", import.meta.url));
const [NUM_POSITIONS, WIDTH, HEADS, LAYERS] = [12, 16, 2, 2];
const SITES: readonly NodeHeads[] = [{ layer: 0, heads: [1] }, { layer: 1, heads: [1, 0] }];
/** Twenty tokens, more than the sixteen for which a decoder step has room. */
const TEXT = [51, 4, 17, 9, 30, 2, 44, 11, 23, 5, 8, 38, 16, 27, 3, 50, 12, 7, 33, 19];
const OTHER = [51, 8, 21];

/** The graph with the weights of each layer's attention to the encoder as outputs. */
function withWeights(step: ModelProto): { model: ModelProto; crossNames: readonly string[] } {
  const names = step.graph.nodes.filter(({ opType }) => opType === "Softmax")
    .map(({ outputs }) => outputs[0]!);
  assert.equal(names.length, 2 * LAYERS);
  const crossNames = names.filter((_, i) => i % 2 === 1);
  const added = crossNames.map((name) => makeValueInfo(name, "float32", ["a", "b", "c", "d"]));
  const outputs = [...step.graph.outputs, ...added];
  return { model: { ...step, graph: { ...step.graph, outputs } }, crossNames };
}

/**
 * The weights of each token at each position, by layer and head; the graph runs one token at a
 * time.
 */
async function weighWhole(
  { project, step }: { readonly project: GraphSession; readonly step: GraphSession },
  hidden: Tensor,
  crossNames: readonly string[],
): Promise<number[][][][]> {
  const renamed = (present: Tensors) =>
    Object.fromEntries(
      Object.entries(present).map(([name, tensor]) => [
        name.replace("present", "past_key_values"),
        tensor,
      ]),
    );
  const isCache = ([name]: [string, Tensor]) => name.startsWith("present");
  const cross = renamed(await project.run({ encoder_hidden_states: hidden }));
  let own: Tensors = Object.fromEntries(
    Array.from({ length: LAYERS }, (_, layer) =>
      ["key", "value"].map((half) => [
        `past_key_values.${layer}.decoder.${half}`,
        new Tensor("float32", new Float32Array(0), [1, HEADS, 0, WIDTH / HEADS]),
      ])).flat(),
  );
  const weights: number[][][][] = crossNames.map(() => Array.from({ length: HEADS }, () => []));
  for (const token of TEXT) {
    const input_ids = new Tensor("int64", BigInt64Array.of(BigInt(token)), [1, 1]);
    const outputs = await step.run({ input_ids, ...own, ...cross });
    own = renamed(Object.fromEntries(Object.entries(outputs).filter(isCache)));
    for (const [layer, name] of crossNames.entries()) {
      const row = [...outputs[name]!.data as Float32Array];
      for (let head = 0; head < HEADS; head++) {
        weights[layer]![head]!.push(row.slice(head * NUM_POSITIONS, (head + 1) * NUM_POSITIONS));
      }
    }
  }
  return weights;
}

/** A plain implementation of the alignment from the weights of tokens at positions. */
function alignPlainly(heads: readonly number[][][]): number[][] {
  const shares = heads.map((weights) => {
    const normal = weights.map((row) => [...row]);
    for (let index = 0; index < NUM_POSITIONS; index++) {
      const column = weights.map((row) => row[index]!);
      const mean = column.reduce((sum, x) => sum + x) / column.length;
      const variance = column.reduce((sum, x) => sum + (x - mean) ** 2, 0) / column.length;
      column.forEach((x, token) =>
        normal[token]![index] = (x - mean) / (Math.sqrt(variance) + LEAST_DEVIATION)
      );
    }
    return normal.map((row) => {
      const mirrored = [3, 2, 1].map((i) => row[i]!).concat(row, [2, 3, 4].map((i) => row.at(-i)!));
      return row.map((_, i) => mirrored.slice(i, i + 7).sort((a, b) => a - b)[3]!);
    });
  });
  return shares[0]!.map((row, token) =>
    row.map((_, index) => shares.reduce((sum, share) => sum + share[token]![index]!, 0) / 3)
  );
}

/** A step of one sequence, in the last two blocks of the cache before those of the aligner. */
function makeStep(encoderInput: object, tokens: readonly number[], position: number): StepBatch {
  const sample = { params: GREEDY, tokenIndex: 0, topLogprobs: 0 };
  return {
    sequences: [{ sequenceId: 1, encoderInput, sample }],
    numTokens: tokens.length,
    tokenIds: Int32Array.from(tokens),
    positions: Int32Array.from(tokens, (_, i) => position + i),
    queryStarts: Int32Array.of(0, tokens.length),
    kvLengths: Int32Array.of(position + tokens.length),
    blockTables: Int32Array.of(2, 3),
    maxBlocksPerSequence: 2,
  };
}

async function assertAligned(backend: Backend): Promise<void> {
  await using files = new FolderFiles(EXPORTS);
  const step = await readModel(files, "whisper_step_eager_17.onnx");
  const project = await readModel(files, "whisper_project_eager_17.onnx");
  const normal = makeNormal(8);
  const draw = () => new Float32Array(NUM_POSITIONS * WIDTH).map(() => normal());
  const tensor = (data: Float32Array) => new Tensor("float32", data, [1, NUM_POSITIONS, WIDTH]);
  const [sound, otherSound] = [draw(), draw()];

  const cpu = new CpuBackend();
  const { model, crossNames } = withWeights(step);
  const whole = {
    project: await cpu.openModel(project, files),
    step: await cpu.openModel(model, files),
  };
  const weights = await weighWhole(whole, tensor(sound), crossNames);
  const want = alignPlainly(
    SITES.flatMap(({ layer, heads }) => heads.map((head) => weights[layer]![head]!)),
  );

  interface Input {
    readonly hidden: Float32Array;
  }
  const decoder = await openEncoderDecoder<Input>(
    { project, step: keepOutputs(step, ["logits"]) },
    {
      ...{ backend, files, contextLength: 24, numPositions: NUM_POSITIONS, maxSequences: 2 },
      encoder: { maxInputs: 1, encode: ([input]) => Promise.resolve(tensor(input!.hidden)) },
    },
  );
  assert.ok(decoder instanceof EncoderDecoder);
  const encoderInput = { hidden: sound };
  const other = { hidden: otherSound };
  const stepOther = async (tokens: readonly number[], position: number) => {
    const logits = await forward(decoder, makeStep(other, tokens, position));
    return (await backend.read(logits!)).slice();
  };
  const alone = await stepOther(OTHER, 0);
  await stepOther(OTHER.slice(0, 2), 0);
  // Aligns twice between two steps of another sequence, which must not be affected.
  for (let round = 0; round < 2; round++) {
    const got: Float32Array = await decoder.align({
      ...{ encoderInput, tokens: TEXT, nodes: SITES },
      numPositions: NUM_POSITIONS,
    });
    assert.equal(got.length, TEXT.length * NUM_POSITIONS);
    want.flat().forEach((x, i) => {
      assert.ok(
        Math.abs(got[i]! - x) < 2e-3,
        `token ${Math.floor(i / NUM_POSITIONS)}, index ${i % NUM_POSITIONS}: ${got[i]} for ${x}`,
      );
    });
  }
  const beside = await stepOther(OTHER.slice(2), 2);
  alone.forEach((x, i) => assert.ok(Math.abs(beside[i]! - x) < 1e-4));

  const short = await decoder.align({
    ...{ encoderInput, tokens: TEXT.slice(0, 5), nodes: SITES },
    numPositions: 7,
  });
  assert.equal(short.length, 5 * 7);
  assert.ok(short.every(Number.isFinite));
  await decoder.dispose();
}

Deno.test("TextAligner equals the graph's own attention, on the CPU", () =>
  assertAligned(new CpuBackend()));

gpuTest("TextAligner equals the graph's own attention, on WebGPU", async (gpu) => {
  await assertAligned(await WebGpuBackend.create(gpu));
});
