/** Recurrences in WebAssembly equal their references in float64, and give a row the same bits in any batch. */
import assert from "node:assert/strict";
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import {
  type CausalConvParams,
  joinConvFactors,
  type LinearAttentionParams,
} from "../../kernels/states/recurrences.ts";
import { causalConvReference } from "./references/causal_conv_reference.ts";
import { linearAttentionReference } from "./references/linear_attention_reference.ts";
import { listRanges, type StateRange } from "../../kernels/states/state_step.ts";
import {
  type SimdRecurrence,
  SimdStates,
  type StateArrays,
} from "../../kernels/states/states_simd.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { makeNormal } from "./exact_sampling.ts";
import { makeSteps, MAX_TOKENS, NUM_SLOTS } from "./state_case.ts";
import { untilHelped } from "./until_helped.ts";

const EXACT = { abs: 2e-5, rel: 2e-5 };
const ROWS = 2 * MAX_TOKENS;

type Linear = Omit<LinearAttentionParams, "elem" | "q" | "k" | "v" | "decays" | "betas">;

const LINEAR: Readonly<Record<string, Linear>> = {
  "the gated delta rule of Qwen3.5": {
    ...{ heads: 4, queryHeads: 2, keyHeads: 2, keyDim: 128, valueDim: 128, scale: 0.088 },
    ...{ decay: "logarithm", decaysRows: false, rates: 4 },
  },
  "Mamba-2, one key for all heads": {
    ...{ heads: 2, queryHeads: 1, keyHeads: 1, keyDim: 8, valueDim: 20, scale: 1 },
    ...{ decay: "factor", decaysRows: false, rates: 0 },
  },
  "a decay for each row of the state, and one rate": {
    ...{ heads: 2, queryHeads: 2, keyHeads: 1, keyDim: 130, valueDim: 33, scale: 1 },
    ...{ decay: "logarithm", decaysRows: true, rates: 1 },
  },
  "a decay for each row of the state, without the delta rule": {
    ...{ heads: 2, queryHeads: 2, keyHeads: 2, keyDim: 12, valueDim: 18, scale: 1 },
    ...{ decay: "factor", decaysRows: true, rates: 0 },
  },
  "neither decay nor rates": {
    ...{ heads: 3, queryHeads: 3, keyHeads: 3, keyDim: 4, valueDim: 3, scale: 2 },
    ...{ decay: undefined, decaysRows: false, rates: 0 },
  },
};

const CONVOLUTIONS: Readonly<Record<string, Omit<CausalConvParams, "elem">>> = {
  "Qwen3.5's": { channels: 520, taps: 4, stride: 523, offset: 2, activation: "silu" },
  "LFM2's": { channels: 64, taps: 3, stride: 192, offset: 64 },
  "of few channels": { channels: 7, taps: 16, stride: 7, offset: 0 },
  "of one token": { channels: 12, taps: 1, stride: 12, offset: 0, activation: "silu" },
};

function getAttention(shape: Linear): Omit<LinearAttentionParams, "elem"> {
  const { heads, queryHeads, keyHeads, keyDim, valueDim, decay, decaysRows, rates } = shape;
  const [q, k, v] = [queryHeads * keyDim, keyHeads * keyDim, heads * valueDim];
  const stride = q + k + v + 3;
  const decays = decay === undefined ? 0 : decaysRows ? heads * keyDim : heads;
  return {
    ...shape,
    q: { stride, offset: 1 },
    k: { stride, offset: 1 + q },
    v: { stride, offset: 1 + q + k },
    decays: { stride: decays + rates + 1, offset: 0 },
    betas: { stride: decays + rates + 1, offset: decays },
  };
}

/** A recurrence, and rows of one step for it. */
interface Case {
  readonly node: SimdRecurrence;
  readonly stateLength: number;
  readonly outWidth: number;
  readonly makeRows: (seed: number) => Omit<StateArrays, "out">;
  readonly reference: (
    rows: Omit<StateArrays, "out">,
    arrays: { readonly state: Float64Array; readonly out: Float64Array },
    ranges: readonly StateRange[],
  ) => void;
}

function attentionCase(shape: Linear): Case {
  const params = getAttention(shape);
  const { heads, keyHeads, keyDim, valueDim } = shape;
  return {
    node: { kind: "attention", params },
    stateLength: heads * keyDim * valueDim,
    outWidth: heads * valueDim,
    makeRows: (seed) => {
      const normal = makeNormal(seed);
      const rows = Float32Array.from({ length: ROWS * params.q.stride }, () => normal());
      // Keys of length 1, as the delta rule requires.
      for (let at = 0; at < ROWS * keyHeads; at++) {
        const row = Math.floor(at / keyHeads) * params.k.stride + params.k.offset;
        const key = rows.subarray(row + at % keyHeads * keyDim, row + (at % keyHeads + 1) * keyDim);
        const length = Math.hypot(...key);
        key.forEach((value, i) => key[i] = value / length);
      }
      const gates = Float32Array.from({ length: ROWS * params.decays.stride }, (_, i) => {
        const between = 1 / (1 + Math.exp(-normal()));
        const isDecay = i % params.decays.stride < params.betas.offset;
        return isDecay && params.decay === "logarithm" ? Math.log(between) : between;
      });
      return { q: rows, k: rows, v: rows, decays: gates, betas: gates };
    },
    reference: (rows, { state, out }, ranges) => {
      const { q, k, v, decays, betas } = rows;
      const own = { q: q!, k: k!, v: v!, decays, betas, state, out };
      linearAttentionReference({ ...params, elem: "f32" }, own, ranges);
    },
  };
}

function convolutionCase(params: Omit<CausalConvParams, "elem">): Case {
  const { channels, taps, stride } = params;
  const normal = makeNormal(3);
  const numbers = (length: number) => Float32Array.from({ length }, () => normal());
  const factors = joinConvFactors(
    { weights: numbers(channels * taps), bias: numbers(channels) },
    params,
  );
  return {
    node: { kind: "convolution", params, factors },
    stateLength: (taps - 1) * channels,
    outWidth: channels,
    makeRows: (seed) => {
      const own = makeNormal(100 + seed);
      return { x: Float32Array.from({ length: ROWS * stride }, () => own()) };
    },
    reference: ({ x }, { state, out }, ranges) =>
      causalConvReference(params, { x: x!, factors, state, out }, ranges),
  };
}

const CASES: Readonly<Record<string, Case>> = {
  ...Object.fromEntries(
    Object.entries(LINEAR).map(([name, shape]) => [name, attentionCase(shape)]),
  ),
  ...Object.fromEntries(
    Object.entries(CONVOLUTIONS).map(([name, params]) => [
      `a convolution ${name}`,
      convolutionCase(params),
    ]),
  ),
};

const OPTIONS = { numSlots: NUM_SLOTS, maxSequences: NUM_SLOTS };

for (const [name, { node, stateLength, outWidth, makeRows, reference }] of Object.entries(CASES)) {
  Deno.test(`SimdStates.run(), ${name}: equals its reference in float64`, () => {
    const states = new SimdStates([node], { ...OPTIONS, threads: new KernelThreads(1) });
    const state = new Float64Array(NUM_SLOTS * stateLength).fill(NaN);
    makeSteps().forEach((step, i) => {
      const rows = makeRows(i);
      const [out, wanted] = [
        new Float32Array(step.numTokens * outWidth),
        new Float64Array(step.numTokens * outWidth),
      ];
      reference(rows, { state, out: wanted }, listRanges(step));
      states.run(0, { ...rows, out }, listRanges(step));
      assertClose(out, wanted, EXACT);
    });
  });

  Deno.test(`SimdStates.run(), ${name}: gives a row the same bits for any division of its sequence`, () => {
    const states = new SimdStates([node], { ...OPTIONS, threads: new KernelThreads(1) });
    const rows = makeRows(9);
    const numRows = 90;
    const answer = (
      ends: readonly number[],
      slot: number,
      { start = 0, saved }: Pick<StateRange, "saved"> & { readonly start?: number } = {},
    ) => {
      const out = new Float32Array(numRows * outWidth);
      ends.forEach((end, i) => {
        const first = ends[i - 1] ?? start;
        const part = (values: StateArrays["q"], stride: number) =>
          values && values.subarray(first * stride);
        const { params } = node;
        const strides = node.kind === "attention" ? attentionStrides(node.params) : {};
        const own = "x" in rows
          ? { x: part(rows.x, (params as CausalConvParams).stride) }
          : Object.fromEntries(
            Object.entries(rows).map(([role, values]) =>
              [role, part(values, strides[role as keyof typeof strides]!)] as const
            ),
          );
        const range = { first: 0, end: end - first, slot, isFresh: first === 0, saved };
        states.run(0, { ...own, out: out.subarray(first * outWidth) } as StateArrays, [range]);
      });
      return out;
    };
    const whole = answer([numRows], 0);
    const single = answer(Array.from({ length: numRows }, (_, i) => i + 1), 1);
    assert.deepEqual(single, whole);
    assert.deepEqual(answer([3, 4, 70, numRows], 2), whole);
    // Continues from a state saved within a group of rows that are computed together, or at the group's end.
    for (const end of [17, 64, 70, numRows - 1]) {
      const saved = { end, slot: 4 };
      assert.deepEqual(answer([numRows], 3, { saved }), whole);
      const rest = answer([numRows], 4, { start: end });
      assert.deepEqual(rest.subarray(end * outWidth), whole.subarray(end * outWidth));
    }
    // Continues from a state saved after the last row.
    const saved = { end: numRows - 2, slot: 4 };
    answer([numRows - 2], 3, { saved });
    const rest = answer([numRows], 4, { start: numRows - 2 });
    assert.deepEqual(rest.subarray(saved.end * outWidth), whole.subarray(saved.end * outWidth));
  });
}

function attentionStrides({ q, k, v, decays, betas }: Omit<LinearAttentionParams, "elem">) {
  return {
    ...{ q: q.stride, k: k.stride, v: v.stride },
    ...{ decays: decays.stride, betas: betas.stride },
  };
}

Deno.test("SimdStates.run() gives the same bits with helper threads, and copy() copies a slot", async () => {
  const nodes = Object.values(CASES).map(({ node }) => node);
  const threads = new KernelThreads(3, { minFlops: 0 });
  const alone = new SimdStates(nodes, { ...OPTIONS, threads: new KernelThreads(1) });
  const helped = new SimdStates(nodes, { ...OPTIONS, threads });
  try {
    await untilHelped(threads, 20, (round) => {
      Object.values(CASES).forEach(({ makeRows, outWidth }, index) => {
        const rows = makeRows(round);
        const [a, b] = [new Float32Array(8 * outWidth), new Float32Array(8 * outWidth)];
        const ranges = [
          { first: 0, end: 6, slot: round % 2, isFresh: round < 2 },
          { first: 6, end: 8, slot: 2, isFresh: true },
        ];
        alone.run(index, { ...rows, out: a }, ranges);
        helped.run(index, { ...rows, out: b }, ranges);
        assert.deepEqual(a, b);
      });
      for (const states of [alone, helped]) states.copy(2, 3);
    });
    const [{ makeRows, outWidth }] = Object.values(CASES) as [Case];
    const answer = (slot: number) => {
      const out = new Float32Array(outWidth);
      alone.run(0, { ...makeRows(1), out }, [{ first: 0, end: 1, slot, isFresh: false }]);
      return out;
    };
    assert.deepEqual(answer(3), answer(2));
  } finally {
    threads.dispose();
  }
});
