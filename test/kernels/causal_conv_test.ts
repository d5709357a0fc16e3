import assert from "node:assert/strict";
import {
  CausalConv,
  type CausalConvParams,
  joinConvFactors,
} from "../../kernels/states/recurrences.ts";
import { causalConvReference } from "./references/causal_conv_reference.ts";
import { listRanges, StateStepBuffer } from "../../kernels/states/state_step.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { HAS_F16, kernelTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { makeSteps, MAX_TOKENS, NUM_SLOTS } from "./state_case.ts";
import { runAndRead, upload } from "./tensors.ts";

const CASES: readonly (Omit<CausalConvParams, "elem"> & { readonly hasBias: boolean })[] = [
  { channels: 70, taps: 3, stride: 70, offset: 0, hasBias: false },
  { channels: 64, taps: 4, stride: 200, offset: 100, activation: "silu", hasBias: true },
  { channels: 5, taps: 1, stride: 5, offset: 0, hasBias: true },
];

/** Computes the formula directly, over all inputs of a sequence. */
function convolve(
  { channels, taps, activation }: Omit<CausalConvParams, "elem">,
  { weights, bias }: { readonly weights: Float32Array; readonly bias?: Float32Array | undefined },
  inputs: readonly (readonly number[])[],
): number[][] {
  return inputs.map((_, t) =>
    Array.from({ length: channels }, (_, c) => {
      let sum = bias?.[c] ?? 0;
      for (let k = 0; k < taps; k++) {
        sum += weights[c * taps + k]! * (inputs[t - taps + 1 + k]?.[c] ?? 0);
      }
      return activation ? sum / (1 + Math.exp(-sum)) : sum;
    })
  );
}

/** Makes the rows of one step, with NaN outside the channels. */
function makeRows({ channels, stride, offset }: Omit<CausalConvParams, "elem">, seed: number) {
  const normal = makeNormal(seed);
  const rows = new Float32Array(MAX_TOKENS * 2 * stride).fill(NaN);
  for (let at = offset; at < rows.length; at += stride) {
    for (let c = 0; c < channels; c++) rows[at + c] = Math.fround(normal());
  }
  return rows;
}

for (const { hasBias, ...params } of CASES) {
  const { channels, taps, stride, offset } = params;
  const normal = makeNormal(7);
  const weights = Float32Array.from({ length: channels * taps }, normal);
  const bias = hasBias ? Float32Array.from({ length: channels }, normal) : undefined;
  const factors = joinConvFactors({ weights, bias }, params);
  const name = `of ${taps} taps`;

  Deno.test(`causalConvReference() ${name} gives the same results step by step as for whole sequences`, () => {
    const state = new Float64Array(NUM_SLOTS * (taps - 1) * channels).fill(NaN);
    const inputs = new Map<number, number[][]>();
    makeSteps().forEach((step, i) => {
      const x = Float64Array.from(makeRows(params, i));
      const out = new Float64Array(step.numTokens * channels);
      causalConvReference(params, { x, factors, state, out }, listRanges(step));
      for (const { first, end, slot, saved } of listRanges(step)) {
        const before = inputs.get(slot) ?? [];
        const own = Array.from({ length: end - first }, (_, t) => {
          const at = (first + t) * stride + offset;
          return [...x.subarray(at, at + channels)];
        });
        const whole = [...before, ...own];
        inputs.set(slot, whole);
        if (saved) inputs.set(saved.slot, whole.slice(0, before.length + saved.end - first));
        const wanted = convolve(params, { weights, bias }, whole).slice(before.length).flat();
        assertClose(out.subarray(first * channels, end * channels), wanted, { abs: 1e-12 });
      }
    });
    // Slot 2 has no sequence.
    assert.ok(
      state.subarray(2 * (taps - 1) * channels, 3 * (taps - 1) * channels).every(Number.isNaN),
    );
  });

  for (const elem of HAS_F16 ? ["f32", "f16"] as const : ["f32"] as const) {
    kernelTest(`causal_conv ${name} in ${elem} equals its reference`, async (gpu) => {
      const buffer = new StateStepBuffer(gpu, NUM_SLOTS);
      const kernel = new CausalConv(gpu, buffer, { ...params, elem });
      const exact = new Float64Array(NUM_SLOTS * (taps - 1) * channels).fill(NaN);
      const state = upload(gpu, Float32Array.from(exact), "f32");
      for (const [i, step] of makeSteps().entries()) {
        const x = makeRows(params, i);
        const rounded = elem === "f16"
          ? Float64Array.from(new Float16Array(x))
          : Float64Array.from(x);
        const wanted = new Float64Array(step.numTokens * channels);
        causalConvReference(
          params,
          { x: rounded, factors, state: exact, out: wanted },
          listRanges(step),
        );
        const out = upload(gpu, new Float32Array(MAX_TOKENS * 2 * channels), elem);
        const tensors = {
          x: upload(gpu, x, elem),
          factors: upload(gpu, factors, "f32"),
          state,
          out,
        };
        buffer.write(step);
        const got = await runAndRead(gpu, (pass) => kernel.encode(pass, tensors), {
          buffer: out,
          length: wanted.length,
          elem,
        });
        assertClose(
          got,
          wanted,
          elem === "f16" ? { abs: 2e-3, rel: 1e-3 } : { abs: 1e-5, rel: 1e-5 },
        );
      }
    });
  }
}

Deno.test("causalConvReference() refuses more taps than causal_conv supports", () => {
  const params = { channels: 4, taps: 17, stride: 4, offset: 0 };
  const arrays = {
    x: new Float32Array(4),
    factors: new Float32Array(72),
    state: new Float32Array(64),
  };
  assert.throws(
    () => causalConvReference(params, { ...arrays, out: new Float32Array(4) }, []),
    /17 tokens: causal_conv takes 1 to 16/,
  );
});
