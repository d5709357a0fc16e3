/**
 * Compares a cut graph, with two sequences packed into each step, and the whole graph, with each sequence alone.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { GraphCut } from "../../../src/graph/graph_cut.ts";
import type { CutOptions } from "../../../src/graph/cut/cut_graph.ts";
import { CutRunner, TestSequence, type TestStep } from "./cut_runner.ts";
import { inMemory } from "./test_decoder.ts";
import { WholeGraph } from "./whole_graph.ts";

/** Largest difference between two rows. */
export function distance(a: Float32Array, b: Float32Array): number {
  return a.reduce((largest, x, i) => Math.max(largest, Math.abs(x - b[i]!)), 0);
}

type Tokens = readonly number[] | readonly Float32Array[];

/** Numbers of tokens of two sequences in each step: prompts, chunks and single tokens. */
const STEPS = [[5, 0], [1, 3], [2, 4], [0, 1], [1, 1]] as const;

function take(sequence: number, from: number, count: number, width: number | undefined): Tokens {
  const ids = Array.from({ length: count }, (_, i) => ((from + i) * 7 + sequence * 11 + 3) % 29);
  if (width === undefined) return ids;
  return ids.map((id) => Float32Array.from({ length: width }, (_, d) => Math.sin(id * 3 + d)));
}

/**
 * Cuts a model and checks every token's logits.
 *
 * @returns the cut, for further checks.
 */
export async function assertSameAsWhole(
  model: Uint8Array,
  options: CutOptions & {
    readonly tolerance?: number;
    /** Width of the embeddings, for a model whose inputs are embeddings. */
    readonly width?: number;
    /** Runs each sequence in separate steps. */
    readonly alone?: boolean;
    /** A model with the same results to run whole, if ONNX Runtime cannot run `model`. */
    readonly truth?: Uint8Array;
  } = {},
): Promise<GraphCut> {
  await using whole = await WholeGraph.open(options.truth ?? model);
  await using cut = await CutRunner.open(inMemory(model), "model.onnx", {
    contextLength: options.contextLength ?? 64,
  });
  const wanted: Float32Array[][] = [];
  for (const sequence of [0, 1]) {
    let from = 0;
    const chunks = STEPS.map((counts) => {
      const chunk = take(sequence, from, counts[sequence]!, options.width);
      from += chunk.length;
      return chunk;
    });
    wanted.push(await whole.run(chunks.filter((chunk) => chunk.length > 0), cut.cut.output.name));
  }
  const sequences = [new TestSequence(), new TestSequence()];
  const done = [0, 0];
  const alone = STEPS.flatMap(([first, second]) => [[first, 0], [0, second]]);
  for (const counts of options.alone ? alone : STEPS) {
    const steps: TestStep[] = [];
    const expected: Float32Array[] = [];
    counts.forEach((count, i) => {
      if (count === 0) return;
      steps.push({ sequence: sequences[i]!, tokens: take(i, done[i]!, count, options.width) });
      expected.push(...wanted[i]!.slice(done[i]!, done[i]! + count));
      done[i]! += count;
    });
    if (steps.length === 0) continue;
    // In reverse, so that a cut that ignores the requested rows fails.
    const rows = expected.map((_, i) => expected.length - 1 - i);
    const got = await cut.step(steps, rows);
    got.forEach((row, i) => {
      const off = distance(row, expected[rows[i]!]!);
      assert.ok(
        off <= (options.tolerance ?? 2e-5),
        `row ${rows[i]} of step ${counts} is off by ${off}`,
      );
    });
  }
  return cut.cut;
}
