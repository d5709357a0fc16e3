import assert from "node:assert/strict";
import {
  LinearAttentionKernel,
  type LinearAttentionParams,
} from "../../kernels/states/recurrences.ts";
import { linearAttentionReference } from "./references/linear_attention_reference.ts";
import { listRanges, StateStepBuffer } from "../../kernels/states/state_step.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { HAS_F16, kernelTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { makeSteps, MAX_TOKENS, NUM_SLOTS } from "./state_case.ts";
import { runAndRead, upload } from "./tensors.ts";

type Shape = Omit<LinearAttentionParams, "elem" | "q" | "k" | "v" | "decays" | "betas">;

const SHAPES: Readonly<Record<string, Shape>> = {
  "the gated delta rule of Qwen3.5": {
    ...{ heads: 4, queryHeads: 2, keyHeads: 2, keyDim: 16, valueDim: 16, scale: 0.25 },
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
  "neither decay nor rates": {
    ...{ heads: 3, queryHeads: 3, keyHeads: 3, keyDim: 4, valueDim: 4, scale: 2 },
    ...{ decay: undefined, decaysRows: false, rates: 0 },
  },
};

/** Makes parameters with operands packed in rows: q, k and v in one tensor, decays and rates in another. */
function makeParams(shape: Shape): Omit<LinearAttentionParams, "elem"> {
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

/**
 * Makes rows of one step. Keys have length 1, as the delta rule requires. Decay factors and rates are between 0 and 1;
 * decays are the factors or their logarithms.
 */
function makeRows(params: Omit<LinearAttentionParams, "elem">, seed: number) {
  const normal = makeNormal(seed);
  const rows = Float32Array.from({ length: MAX_TOKENS * 2 * params.q.stride }, () => normal());
  for (let t = 0; t < MAX_TOKENS * 2; t++) {
    for (let h = 0; h < params.keyHeads; h++) {
      const at = t * params.k.stride + params.k.offset + h * params.keyDim;
      const key = rows.subarray(at, at + params.keyDim);
      const length = Math.hypot(...key);
      for (let i = 0; i < key.length; i++) key[i]! /= length;
    }
  }
  const gates = Float32Array.from(
    { length: MAX_TOKENS * 2 * params.decays.stride },
    (_, i) => {
      const isDecay = i % params.decays.stride < params.betas.offset;
      const between = 1 / (1 + Math.exp(-normal()));
      return isDecay && params.decay === "logarithm" ? Math.log(between) : between;
    },
  );
  return { rows, gates };
}

/** Computes the formula directly for one head, with matrices. */
function attend(
  { decay, rates, scale }: Shape,
  tokens: readonly {
    readonly q: Float64Array;
    readonly k: Float64Array;
    readonly v: Float64Array;
    readonly decays: readonly number[];
    readonly beta: number;
  }[],
): number[][] {
  const [rows, columns] = [tokens[0]!.k.length, tokens[0]!.v.length];
  const state = Array.from({ length: rows }, () => new Array<number>(columns).fill(0));
  return tokens.map(({ q, k, v, decays, beta }) => {
    state.forEach((row, i) => {
      const factor = decay === undefined
        ? 1
        : decay === "logarithm"
        ? Math.exp(decays[i]!)
        : decays[i]!;
      for (let j = 0; j < columns; j++) row[j]! *= factor;
    });
    const held = Array.from(
      { length: columns },
      (_, j) => rates === 0 ? 0 : state.reduce((sum, row, i) => sum + row[j]! * k[i]!, 0),
    );
    state.forEach((row, i) => {
      for (let j = 0; j < columns; j++) row[j]! += k[i]! * beta * (v[j]! - held[j]!);
    });
    return Array.from(
      { length: columns },
      (_, j) => scale * state.reduce((sum, row, i) => sum + row[j]! * q[i]!, 0),
    );
  });
}

for (const [name, shape] of Object.entries(SHAPES)) {
  const params = makeParams(shape);
  const { heads, queryHeads, keyHeads, keyDim, valueDim, decaysRows, rates } = shape;
  const width = heads * valueDim;

  Deno.test(`linearAttentionReference(), ${name}: gives the same results step by step as for whole sequences`, () => {
    const state = new Float64Array(NUM_SLOTS * heads * keyDim * valueDim).fill(NaN);
    const seen = new Map<number, Parameters<typeof attend>[1][number][][]>();
    makeSteps().forEach((step, i) => {
      const { rows, gates } = makeRows(params, i);
      const [x, g] = [Float64Array.from(rows), Float64Array.from(gates)];
      const out = new Float64Array(step.numTokens * width);
      const arrays = { q: x, k: x, v: x, decays: g, betas: g, state, out };
      linearAttentionReference({ ...params, elem: "f32" }, arrays, listRanges(step));
      for (const { first, end, slot, saved } of listRanges(step)) {
        const before = seen.get(slot) ?? Array.from({ length: heads }, () => []);
        const all = before.map((tokens, h) => [
          ...tokens,
          ...Array.from({ length: end - first }, (_, t) => {
            const part = (p: { stride: number; offset: number }, at: number, size: number) =>
              x.slice(
                (first + t) * p.stride + p.offset + at,
                (first + t) * p.stride + p.offset + at + size,
              );
            const gate = (first + t) * params.decays.stride;
            return {
              q: part(params.q, Math.floor(h * queryHeads / heads) * keyDim, keyDim),
              k: part(params.k, Math.floor(h * keyHeads / heads) * keyDim, keyDim),
              v: part(params.v, h * valueDim, valueDim),
              decays: Array.from(
                { length: keyDim },
                (_, i) => g[gate + (decaysRows ? h * keyDim + i : h)]!,
              ),
              beta: rates === 0 ? 1 : g[gate + params.betas.offset + (rates > 1 ? h : 0)]!,
            };
          }),
        ]);
        seen.set(slot, all);
        if (saved) {
          const numSeen = before[0]!.length + saved.end - first;
          seen.set(saved.slot, all.map((tokens) => tokens.slice(0, numSeen)));
        }
        all.forEach((tokens, h) => {
          const wanted = attend(shape, tokens).slice(before[h]!.length);
          wanted.forEach((row, t) => {
            const at = (first + t) * width + h * valueDim;
            assertClose(out.subarray(at, at + valueDim), row, { abs: 1e-10, rel: 1e-10 });
          });
        });
      }
    });
    const size = heads * keyDim * valueDim;
    assert.ok(state.subarray(2 * size, 3 * size).every(Number.isNaN));
  });

  for (const elem of HAS_F16 ? ["f32", "f16"] as const : ["f32"] as const) {
    kernelTest(`linear_attention in ${elem}, ${name}, equals its reference`, async (gpu) => {
      const buffer = new StateStepBuffer(gpu, NUM_SLOTS);
      const kernel = new LinearAttentionKernel(gpu, buffer, { ...params, elem });
      const exact = new Float64Array(NUM_SLOTS * heads * keyDim * valueDim).fill(NaN);
      const state = upload(gpu, Float32Array.from(exact), "f32");
      for (const [i, step] of makeSteps().entries()) {
        const { rows, gates } = makeRows(params, i);
        const x = elem === "f16"
          ? Float64Array.from(new Float16Array(rows))
          : Float64Array.from(rows);
        const g = Float64Array.from(gates);
        const wanted = new Float64Array(step.numTokens * width);
        const arrays = { q: x, k: x, v: x, decays: g, betas: g, state: exact, out: wanted };
        linearAttentionReference({ ...params, elem }, arrays, listRanges(step));
        const [packed, gated] = [upload(gpu, rows, elem), upload(gpu, gates, "f32")];
        const out = upload(gpu, new Float32Array(MAX_TOKENS * 2 * width), elem);
        buffer.write(step);
        const tensors = {
          q: packed,
          k: packed,
          v: packed,
          decays: gated,
          betas: gated,
          state,
          out,
        };
        const got = await runAndRead(gpu, (pass) => kernel.encode(pass, tensors), {
          buffer: out,
          length: wanted.length,
          elem,
        });
        assertClose(
          got,
          wanted,
          elem === "f16" ? { abs: 2e-2, rel: 2e-3 } : { abs: 1e-4, rel: 1e-4 },
        );
      }
    });
  }
}

Deno.test("linearAttentionReference() refuses numbers of heads that do not divide each other", () => {
  const params = {
    ...makeParams(SHAPES["neither decay nor rates"]!),
    keyHeads: 2,
    elem: "f32",
  } as const;
  const none = new Float32Array();
  assert.throws(
    () =>
      linearAttentionReference(params, { q: none, k: none, v: none, state: none, out: none }, []),
    /3 states of 4 rows, 3 queries and 2 keys/,
  );
});
