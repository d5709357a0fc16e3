/**
 * Runs cut graphs for tests: the segments in ONNX Runtime on the CPU, and a plain attention in float64 between them.
 *
 * @module
 */
import { FolderFiles, type ModelFiles } from "../../../src/graph/file/external_data.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import type {
  AttentionNode,
  GraphCut,
  HeadRows,
  RecurrenceNode,
  TensorPort,
} from "../../../src/graph/graph_cut.ts";
import { joinConvFactors } from "../../../kernels/states/recurrences.ts";
import { causalConvReference } from "../../kernels/references/causal_conv_reference.ts";
import { linearAttentionReference } from "../../kernels/references/linear_attention_reference.ts";
import {
  listStateConstants,
  stateSize,
  toConvParams,
  toLinearParams,
} from "../../../src/device/kernel_nodes.ts";
import type { StoredTensor } from "../../../src/graph/file/tensor.ts";
import { type GraphSession, Tensor, type Tensors } from "../../../src/device/ort/ort.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { copyWeights } from "../../../src/device/ort/pack_model.ts";
import { cutGraph, type CutOptions } from "../../../src/graph/cut/cut_graph.ts";
import { openCpuSession } from "./cpu_session.ts";

type Numbers = Float32Array | Float16Array;

/** The cache of one sequence: per layer a row `[kvHeads * size]` per token. */
export class TestSequence {
  readonly keys: Float64Array[][] = [];
  readonly values: Float64Array[][] = [];
  /** The sequence's states, by the name of the recurrence's output. */
  readonly states = new Map<string, Float64Array>();

  /** Number of tokens cached so far. */
  get length(): number {
    return this.keys[0]?.length ?? 0;
  }
}

/** A sequence's share of a step. */
export interface TestStep {
  readonly sequence: TestSequence;
  /** Token ids, or rows of embeddings. */
  readonly tokens: readonly number[] | readonly Float32Array[];
}

function getNumbers(tensor: Tensor): Numbers {
  return tensor.data as Numbers;
}

function floatTensor(port: TensorPort, shape: readonly number[], data: Float64Array): Tensor {
  return port.dtype === "float16"
    ? new Tensor("float16", Float16Array.from(data) as unknown as Uint16Array, shape)
    : new Tensor("float32", Float32Array.from(data), shape);
}

/** Reads the elements of a stored table. */
async function readTable(tensor: StoredTensor, files: ModelFiles): Promise<Float64Array> {
  const bytes = (await readStoredBytes(tensor, files)).slice();
  return Float64Array.from(
    tensor.dtype === "float16" ? new Float16Array(bytes.buffer) : new Float32Array(bytes.buffer),
  );
}

interface Tables {
  readonly cos: Float64Array | undefined;
  readonly sin: Float64Array | undefined;
  readonly sinks: Float64Array | undefined;
}

/** Rotates the pairs of one head in place. */
function rotate(head: Float64Array, position: number, node: AttentionNode, tables: Tables): void {
  if (node.rotary === undefined) return;
  const { dim, interleaved } = node.rotary;
  const half = dim / 2;
  for (let i = 0; i < half; i++) {
    const [a, b] = interleaved ? [2 * i, 2 * i + 1] : [i, i + half];
    const [cos, sin] = [tables.cos![position * half + i]!, tables.sin![position * half + i]!];
    const [x, y] = [head[a]!, head[b]!];
    head[a] = x * cos - y * sin;
    head[b] = y * cos + x * sin;
  }
}

function getHeads(data: Numbers, rows: HeadRows, token: number, count: number, size: number) {
  const start = token * rows.tokenStride + rows.offset;
  return Array.from(
    { length: count },
    (_, head) => Float64Array.from(data.subarray(start + head * size, start + (head + 1) * size)),
  );
}

function attendHead(
  node: AttentionNode,
  query: Float64Array,
  cached: { readonly keys: readonly Float64Array[]; readonly values: readonly Float64Array[] },
  { head, position, sink }: {
    readonly head: number;
    readonly position: number;
    readonly sink: number | undefined;
  },
): Float64Array {
  const { headDim, vHeadDim, scale, softcap, localWindow = Infinity } = node;
  const kvHead = Math.floor((head * node.kvHeads) / node.heads);
  const first = Math.max(0, position - localWindow + 1);
  const scores: number[] = [];
  for (let j = first; j <= position; j++) {
    let dot = 0;
    for (let d = 0; d < headDim; d++) dot += query[d]! * cached.keys[j]![kvHead * headDim + d]!;
    const score = dot * scale;
    const capped = softcap === undefined ? score : softcap * Math.tanh(score / softcap);
    scores.push(capped + (node.slopes?.[head] ?? 0) * (j - position));
  }
  const top = Math.max(...scores, sink ?? -Infinity);
  const weights = scores.map((score) => Math.exp(score - top));
  const sum = weights.reduce((a, b) => a + b, sink === undefined ? 0 : Math.exp(sink - top));
  const result = new Float64Array(vHeadDim);
  weights.forEach((weight, i) => {
    const value = cached.values[first + i]!;
    for (let d = 0; d < vHeadDim; d++) result[d]! += (weight / sum) * value[kvHead * vHeadDim + d]!;
  });
  return result;
}

/** Attends for all tokens of a step, and caches their keys and values. */
function attend(
  node: AttentionNode,
  tables: Tables,
  steps: readonly TestStep[],
  { q, k, v }: { readonly q: Numbers; readonly k: Numbers; readonly v: Numbers },
): Float64Array {
  const { heads, kvHeads, headDim, vHeadDim } = node;
  const results: Float64Array[] = [];
  let token = 0;
  for (const { sequence, tokens } of steps) {
    const keys = sequence.keys[node.layer] ??= [];
    const values = sequence.values[node.layer] ??= [];
    const start = keys.length;
    for (let i = 0; i < tokens.length; i++) {
      const newKeys = getHeads(k, node.k, token + i, kvHeads, headDim);
      for (const head of newKeys) rotate(head, start + i, node, tables);
      keys.push(Float64Array.from(newKeys.flatMap((head) => [...head])));
      values.push(
        Float64Array.from(getHeads(v, node.v, token + i, kvHeads, vHeadDim).flatMap((x) => [...x])),
      );
    }
    for (let i = 0; i < tokens.length; i++) {
      getHeads(q, node.q, token + i, heads, headDim).forEach((query, head) => {
        rotate(query, start + i, node, tables);
        const sink = tables.sinks?.[head];
        results.push(
          attendHead(node, query, { keys, values }, { head, position: start + i, sink }),
        );
      });
    }
    token += tokens.length;
  }
  const packed = new Float64Array(token * heads * vHeadDim);
  results.forEach((result, i) => packed.set(result, i * vHeadDim));
  return packed;
}

/** Runs a recurrence over the tokens of a step. */
function advance(
  node: RecurrenceNode,
  constants: ReadonlyMap<string, Float64Array>,
  steps: readonly TestStep[],
  getOperand: (name: string) => Numbers,
): Float64Array {
  const { recurrence, operands } = node;
  let first = 0;
  const out = new Float64Array(
    steps.reduce((sum, { tokens }) => sum + tokens.length, 0) * computeWidth(recurrence),
  );
  for (const { sequence, tokens } of steps) {
    const isFresh = !sequence.states.has(node.output.name);
    const state = sequence.states.getOrInsertComputed(
      node.output.name,
      () => new Float64Array(stateSize(node)),
    );
    const ranges = [{ first, end: first + tokens.length, slot: 0, isFresh }];
    first += tokens.length;
    const numbers = operands.map(({ tensor }) => Float64Array.from(getOperand(tensor)));
    if (recurrence.kind === "convolution") {
      const { weights, bias } = recurrence;
      const read = (name: string) => Float32Array.from(constants.get(name)!);
      const factors = joinConvFactors({
        weights: read(weights.name),
        bias: bias && read(bias.name),
      }, recurrence);
      const params = toConvParams(node, recurrence);
      causalConvReference(params, { x: numbers[0]!, factors, state, out }, ranges);
      continue;
    }
    const { decaysName, betasName, ...params } = toLinearParams(node, recurrence);
    const of = (name: string | undefined) =>
      numbers[operands.findIndex(({ tensor }) => tensor === name)];
    const [q, k, v] = numbers as [Float64Array, Float64Array, Float64Array];
    const gates = { decays: of(decaysName), betas: of(betasName) };
    linearAttentionReference(params, { q, k, v, ...gates, state, out }, ranges);
  }
  return out;
}

function computeWidth(recurrence: RecurrenceNode["recurrence"]): number {
  return recurrence.kind === "convolution"
    ? recurrence.channels
    : recurrence.heads * recurrence.valueDim;
}

/** A cut graph, ready to run. */
export class CutRunner implements AsyncDisposable {
  readonly cut: GraphCut;
  readonly #sessions: readonly GraphSession[];
  readonly #tables: readonly Tables[];
  readonly #constants: ReadonlyMap<string, Float64Array>;

  private constructor(
    cut: GraphCut,
    sessions: readonly GraphSession[],
    constants: {
      readonly tables: readonly Tables[];
      readonly ofStates: ReadonlyMap<string, Float64Array>;
    },
  ) {
    this.cut = cut;
    this.#sessions = sessions;
    this.#tables = constants.tables;
    this.#constants = constants.ofStates;
  }

  /** Cuts and loads a graph. @throws {Error} with the reason if it is not cut. */
  static async open(files: ModelFiles, file: string, options?: CutOptions): Promise<CutRunner> {
    const result = cutGraph(await readModel(files, file), options);
    if ("refused" in result) throw new Error(result.refused);
    const { cut } = result;
    const sessions: GraphSession[] = [];
    for (const { model } of cut.segments) {
      const { bytes, externalData } = await copyWeights(model, files);
      sessions.push(await openCpuSession(bytes, externalData));
    }
    const tables: Tables[] = [];
    for (const { rotary, sinks } of cut.attentions) {
      tables.push({
        cos: rotary && await readTable(rotary.cos, files),
        sin: rotary && await readTable(rotary.sin, files),
        sinks: sinks && await readTable(sinks, files),
      });
    }
    const ofStates = new Map<string, Float64Array>();
    for (const tensor of listStateConstants(cut.states)) {
      ofStates.set(tensor.name, await readTable(tensor, files));
    }
    return new CutRunner(cut, sessions, { tables, ofStates });
  }

  /** Cuts and loads a graph file of a folder. */
  static async openFile(path: string, options?: CutOptions): Promise<CutRunner> {
    const slash = path.lastIndexOf("/");
    await using files = new FolderFiles(path.slice(0, slash));
    return await CutRunner.open(files, path.slice(slash + 1), options);
  }

  /**
   * Runs one packed step.
   *
   * @param rows The requested tokens of the step.
   * @returns their rows of the output.
   */
  async step(steps: readonly TestStep[], rows: readonly number[]): Promise<Float32Array[]> {
    const { tokens, positions, output } = this.cut;
    const all = steps.flatMap((step): (number | Float32Array)[] => [...step.tokens]);
    const known: Record<string, Tensor> = {
      [this.cut.rows.name]: new Tensor("int64", BigInt64Array.from(rows, BigInt), [rows.length]),
    };
    if (tokens.kind === "ids") {
      const ids = BigInt64Array.from(all as number[], BigInt);
      known[tokens.name] = new Tensor("int64", ids, [1, all.length]);
    } else {
      const width = tokens.shape[2] as number;
      const packed = Float64Array.from((all as Float32Array[]).flatMap((row) => [...row]));
      known[tokens.name] = floatTensor(tokens, [1, all.length, width], packed);
    }
    if (positions) {
      const places = steps.flatMap(({ sequence, tokens }) =>
        Array.from({ length: tokens.length }, (_, i) => BigInt(sequence.length + i))
      );
      const repeats = positions.shape.length === 3 ? positions.shape[0] as number : 1;
      const data = BigInt64Array.from(Array.from({ length: repeats }, () => places).flat());
      const shape = positions.shape.map((size) => size === "tokens" ? all.length : size as number);
      known[positions.name] = new Tensor("int64", data, shape);
    }
    for (const [i, session] of this.#sessions.entries()) {
      const feeds: Tensors = Object.fromEntries(
        this.cut.segments[i]!.inputs.map(({ name }) => [name, known[name]!]),
      );
      Object.assign(known, await session.run(feeds));
      for (const node of this.cut.attentions) {
        if (node.afterSegment !== i) continue;
        const [q, k, v] = [node.q, node.k, node.v].map(({ tensor }) => getNumbers(known[tensor]!));
        const result = attend(node, this.#tables[node.layer]!, steps, { q: q!, k: k!, v: v! });
        const shape = node.output.shape.map((size) =>
          size === "tokens" ? all.length : size as number
        );
        known[node.output.name] = floatTensor(node.output, shape, result);
      }
      for (const node of this.cut.states) {
        if (node.afterSegment !== i) continue;
        const result = advance(node, this.#constants, steps, (name) => getNumbers(known[name]!));
        const shape = node.output.shape.map((size) =>
          size === "tokens" ? all.length : size as number
        );
        known[node.output.name] = floatTensor(node.output, shape, result);
      }
    }
    const data = getNumbers(known[output.name]!);
    return rows.map((_, i) =>
      Float32Array.from(data.subarray(i * output.width, (i + 1) * output.width))
    );
  }

  /** Generates `count` greedy tokens after a prompt. */
  async generate(prompt: readonly number[], count: number): Promise<number[]> {
    const sequence = new TestSequence();
    const generated: number[] = [];
    let tokens = prompt;
    while (generated.length < count) {
      const [logits] = await this.step([{ sequence, tokens }], [tokens.length - 1]);
      const best = argmax(logits!);
      generated.push(best);
      tokens = [best];
    }
    return generated;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const session of this.#sessions) await session.release();
  }
}

/** Finds the index of the largest element, the first among equals. */
export function argmax(logits: Float32Array): number {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[best]!) best = i;
  return best;
}
