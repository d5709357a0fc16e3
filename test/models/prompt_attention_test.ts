/** Prompt attention in ONNX Runtime, compared with the kernels over the same steps. */
import assert from "node:assert/strict";
import type { PackedStep } from "../../kernels/attention/step_plan.ts";
import { CpuAttention } from "../../src/device/cpu/attention.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import type { AttentionNode } from "../../src/graph/graph_cut.ts";
import { Tensor } from "../../src/device/ort/ort.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";
import { makeStep } from "../kernels/paged_case.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";

const [HEADS, KV_HEADS, SIZE, BLOCK] = [6, 2, 32, 16];
const [Q_WIDTH, KV_WIDTH] = [HEADS * SIZE, KV_HEADS * SIZE];
const MAX_KEYS = 400;

function makeAttention(
  options: Partial<AttentionNode> & { readonly isPacked?: boolean },
): AttentionNode {
  const { isPacked = false, ...rest } = options;
  const stride = Q_WIDTH + 2 * KV_WIDTH;
  const rows = (name: string, width: number, offset: number) =>
    isPacked
      ? { tensor: "qkv", tokenStride: stride, offset }
      : { tensor: name, tokenStride: width, offset: 0 };
  return {
    ...{ layer: 0, afterSegment: 0, name: "attention" },
    q: rows("q", Q_WIDTH, 0),
    k: rows("k", KV_WIDTH, Q_WIDTH),
    v: rows("v", KV_WIDTH, Q_WIDTH + KV_WIDTH),
    output: { name: "out", dtype: "float32", shape: [1, "tokens", Q_WIDTH] },
    ...{ heads: HEADS, kvHeads: KV_HEADS, headDim: SIZE, vHeadDim: SIZE, scale: 0.17 },
    dtype: "float32",
    ...rest,
  };
}

const angles = (name: string) => ({ name, dtype: "float32", shape: [MAX_KEYS, SIZE / 2] });

/**
 * Two steps: the first parts of three prompts, then their remainders together with a new prompt.
 */
function makeSteps(): { steps: PackedStep[]; numBlocks: number } {
  const { step: last, numBlocks } = makeStep([
    { queries: 90, keys: 390 },
    { queries: 1, keys: 41 },
    { queries: 33, keys: 33 },
    { queries: 31, keys: 50 },
  ], BLOCK);
  const keys = [300, 40, 0, 19];
  const queryStarts = Int32Array.from([0, 300, 340, 340, 359]);
  const positions = keys.flatMap((count) => Array.from({ length: count }, (_, i) => i));
  const first = {
    ...last,
    numTokens: 359,
    queryStarts,
    positions: Int32Array.from(positions),
    kvLengths: Int32Array.from(keys),
  };
  return { steps: [first, last], numBlocks };
}

function promptTest(name: string, options: Parameters<typeof makeAttention>[0]): void {
  Deno.test(`PromptAttention equals the kernels: ${name}`, async () => {
    await using backend = await openNative();
    const { steps, numBlocks } = makeSteps();
    const nodes = [makeAttention(options)];
    const normal = makeNormal(4);
    const table = (of: (x: number) => number) =>
      Float32Array.from({ length: MAX_KEYS * SIZE / 2 }, (_, i) => of(i / 7));
    const attentionOptions = {
      ...{ nodes, numBlocks, blockSize: BLOCK, maxTokens: 400, maxSequences: 4 },
      maxBlocksPerSequence: steps[0]!.maxBlocksPerSequence,
      constants: new Map([["cos", table(Math.cos)], ["sin", table(Math.sin)]]),
    };
    let numSessions = 0;
    const kernels = new CpuAttention(attentionOptions);
    const ours = new CpuAttention(attentionOptions, {
      openSession: (model) => {
        numSessions++;
        return backend.cpu.openSession(model);
      },
    });
    const { dtype } = nodes[0]!;
    for (const step of steps) {
      const tensor = (width: number) => {
        const data = new Float32Array(step.numTokens * width).map(normal);
        const dims = [1, step.numTokens, width];
        return dtype === "float32"
          ? new Tensor("float32", data, dims)
          : new Tensor("float16", new Float16Array(data) as unknown as Uint16Array, dims);
      };
      const tensors = new Map(
        options.isPacked
          ? [["qkv", tensor(Q_WIDTH + 2 * KV_WIDTH)]]
          : [["q", tensor(Q_WIDTH)], ["k", tensor(KV_WIDTH)], ["v", tensor(KV_WIDTH)]],
      );
      const outputs = [];
      for (const attention of [kernels, ours]) {
        attention.begin(step);
        const { data, dims } = await attention.run(0, tensors);
        assert.deepEqual(dims, [1, step.numTokens, Q_WIDTH]);
        outputs.push(Float32Array.from(data as Float32Array));
      }
      const tolerance = dtype === "float32" ? { abs: 1e-5, rel: 1e-5 } : { abs: 2e-3, rel: 2e-3 };
      assertClose(outputs[1]!, outputs[0]!, tolerance);
    }
    assert.equal(numSessions, options.sinks ? 0 : 1);
    kernels.dispose();
    ours.dispose();
  });
}

async function openNative(): Promise<{ cpu: CpuBackend } & AsyncDisposable> {
  const cpu = await CpuBackend.open({ choice: "native", threads: 2 });
  return { cpu, [Symbol.asyncDispose]: () => cpu.dispose() };
}

const rotary = { dim: SIZE, interleaved: false, cos: angles("cos"), sin: angles("sin") };
promptTest("tensors apart", {});
promptTest("one tensor", { isPacked: true });
promptTest("a window", { localWindow: 24 });
promptTest("a window of one", { localWindow: 1 });
promptTest("a soft cap", { softcap: 2 });
promptTest("slopes", { slopes: [0.5, 0.25, 0.1, 0.03, 0.01, 0.7] });
promptTest("a soft cap, a window and slopes", {
  ...{ softcap: 2, localWindow: 50, slopes: [0.5, 0.25, 0.1, 0.03, 0.01, 0.7] },
});
promptTest("rotated heads", { rotary: rotary as never });
promptTest("float16", { dtype: "float16" });
promptTest("sinks, which stay in the kernels", {
  sinks: { name: "cos", dtype: "float32", shape: [HEADS] } as never,
});
