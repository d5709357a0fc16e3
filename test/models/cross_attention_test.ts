/** Attention to the output of an encoder: both backends compared with a softmax in float64. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { AttentionNode } from "../../src/graph/graph_cut.ts";
import { Tensor } from "../../src/device/ort/ort.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";

const [HEADS, SIZE, NUM_POSITIONS, SLOTS] = [3, 16, 75, 4];
const WIDTH = HEADS * SIZE;
const SCALE = 0.3;
const TOLERANCE = 2e-5;

/** Copies a host tensor to a backend, and allocates space for a result. */
interface Device {
  readonly backend: Backend;
  tensor(data: Float32Array, dims: readonly number[]): Tensor;
  position(dims: readonly number[]): Tensor | undefined;
  read(tensor: Tensor): Promise<Float32Array>;
}

function onCpu(): Device {
  return {
    backend: new CpuBackend(),
    tensor: (data, dims) => new Tensor("float32", data, dims),
    position: () => undefined,
    read: (tensor) => Promise.resolve(Float32Array.from(tensor.data as Float32Array)),
  };
}

async function onWebGpu(gpu: GpuContext): Promise<Device> {
  const backend = await WebGpuBackend.create(gpu);
  const position = (dims: readonly number[]) =>
    backend.allocate(4 * dims.reduce((product, size) => product * size, 1)).tensor("float32", dims);
  return {
    backend,
    position,
    tensor(data, dims) {
      const tensor = position(dims);
      gpu.device.queue.writeBuffer(
        tensor.gpuBuffer as GPUBuffer,
        0,
        data as Float32Array<ArrayBuffer>,
      );
      return tensor;
    },
    read: (tensor) => backend.read(tensor),
  };
}

const rows = { tensor: "q", tokenStride: WIDTH, offset: 0 };
const SITE: AttentionNode = {
  ...{ layer: 0, afterSegment: 0, name: "cross", q: rows, k: rows, v: rows },
  output: { name: "out", dtype: "float32", shape: [1, "tokens", WIDTH] },
  ...{ heads: HEADS, kvHeads: HEADS, headDim: SIZE, vHeadDim: SIZE },
  ...{ scale: SCALE, dtype: "float32" },
};

interface Memory {
  readonly keys: Float32Array;
  readonly values: Float32Array;
}

/** The attention of one query to a memory. */
function attend(query: Float32Array, { keys, values }: Memory): number[] {
  const result: number[] = [];
  for (let head = 0; head < HEADS; head++) {
    const at = (position: number, d: number) => position * WIDTH + head * SIZE + d;
    const scores = Array.from({ length: NUM_POSITIONS }, (_, position) => {
      let score = 0;
      for (let d = 0; d < SIZE; d++) score += query[head * SIZE + d]! * keys[at(position, d)]!;
      return score * SCALE;
    });
    const largest = Math.max(...scores);
    const weights = scores.map((score) => Math.exp(score - largest));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    for (let d = 0; d < SIZE; d++) {
      let sum = 0;
      weights.forEach((weight, position) => sum += weight * values[at(position, d)]!);
      result.push(sum / total);
    }
  }
  return result;
}

async function assertCross(device: Device): Promise<void> {
  const { backend } = device;
  const normal = makeNormal(11);
  const draw = (length: number) => new Float32Array(length).map(() => normal());
  const attention = backend.openCrossAttention({
    nodes: [SITE, { ...SITE, layer: 1 }],
    ...{ numPositions: NUM_POSITIONS, numSlots: SLOTS, maxInputs: 2, maxTokens: 6 },
  });
  const keep = (layer: number, memories: readonly Memory[], slots: readonly number[]) => {
    const joined = (part: keyof Memory) =>
      Float32Array.from(memories.flatMap((memory) => [...memory[part]]));
    const dims = [memories.length, NUM_POSITIONS, HEADS, SIZE];
    const [keys, values] = [joined("keys"), joined("values")];
    attention.keep(
      layer,
      { keys: device.tensor(keys, dims), values: device.tensor(values, dims) },
      slots,
    );
  };
  const make = (): Memory => ({
    keys: draw(NUM_POSITIONS * WIDTH),
    values: draw(NUM_POSITIONS * WIDTH),
  });
  const poison = {
    keys: draw(NUM_POSITIONS * WIDTH).fill(NaN),
    values: draw(NUM_POSITIONS * WIDTH).fill(NaN),
  };
  const [first, second, other] = [make(), make(), make()];
  keep(0, [poison, poison], [0, 2]);
  keep(0, [first, second], [3, 1]);
  keep(1, [other], [1]);
  // Reuses a slot.
  keep(0, [second], [2]);
  const slots = [1, 3, 3, 2, 1];
  const getMemory = new Map([[1, second], [2, second], [3, first]]);
  const q = draw(slots.length * WIDTH);
  attention.begin(slots);
  const dims = [1, slots.length, WIDTH];
  const run = async (layer: number) =>
    await device.read(
      attention.run(layer, new Map([["q", device.tensor(q, dims)]]), device.position(dims)),
    );
  const got = await run(0);
  slots.forEach((slot, token) => {
    const query = q.subarray(token * WIDTH, (token + 1) * WIDTH);
    attend(query, getMemory.get(slot)!).forEach((x, i) => {
      const y = got[token * WIDTH + i]!;
      assert.ok(Math.abs(y - x) < TOLERANCE * (1 + Math.abs(x)), `token ${token}: ${y} for ${x}`);
    });
  });
  const ofOther = await run(1);
  attend(q.subarray(0, WIDTH), other).forEach((x, i) => {
    assert.ok(Math.abs(ofOther[i]! - x) < TOLERANCE * (1 + Math.abs(x)));
  });
  attention.dispose();
}

Deno.test("CpuCrossAttention lets each token see all positions of its slot, and no others", () =>
  assertCross(onCpu()));

gpuTest(
  "WebGpuCrossAttention lets each token see all positions of its slot, and no others",
  async (gpu) => {
    await assertCross(await onWebGpu(gpu));
  },
);
