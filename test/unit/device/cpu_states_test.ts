import assert from "node:assert/strict";
import { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { CpuStates } from "../../../src/device/cpu/kernel_nodes.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import type { RecurrenceNode } from "../../../src/graph/graph_cut.ts";

const CHANNELS = 4;
const TAPS = 3;

/** Makes a convolution that sums the inputs of a token and of the previous two. */
function makeNode(name: string, index: number): RecurrenceNode {
  const weights = {
    ...{ name: "ones", dtype: "float32", shape: [CHANNELS, 1, TAPS] } as const,
    data: { kind: "memory", bytes: new Uint8Array(4 * CHANNELS * TAPS).fill(0) } as const,
  };
  return {
    ...{ index, name, afterSegment: 0, dtype: "float32" },
    recurrence: { kind: "convolution", channels: CHANNELS, taps: TAPS, weights },
    operands: [{ tensor: name, tokenStride: CHANNELS, offset: 0 }],
    output: { name: `${name}/out`, dtype: "float32", shape: [1, "tokens", CHANNELS] },
  };
}

Deno.test("CpuStates spreads states over several memories, and copies slots in all of them", () => {
  // Two nodes with states of 2 GiB each; only two slots are read or written.
  const numSlots = 2 ** 26;
  const nodes = ["a", "b"].map(makeNode);
  const constants = new Map([["ones", new Float32Array(CHANNELS * TAPS).fill(1)]]);
  const states = new CpuStates(
    { nodes, numSlots, maxSequences: 2, constants },
    new KernelThreads(1),
  );
  const step = (position: number, slot: number, stateCopies?: { from: number; to: number }[]) =>
    states.begin({
      sequences: [{}],
      positions: Int32Array.of(position),
      queryStarts: Int32Array.of(0, 1),
      stateSlots: Int32Array.of(slot),
      stateCopies,
    });
  const run = (index: number, value: number) => {
    const x = new Tensor("float32", new Float32Array(CHANNELS).fill(value), [1, 1, CHANNELS]);
    const { data } = states.run(index, new Map([[nodes[index]!.name, x]]), undefined);
    return (data as Float32Array)[0];
  };
  const last = numSlots - 1;
  step(0, 0);
  assert.deepEqual([run(0, 1), run(1, 10)], [1, 10]);
  step(1, last, [{ from: 0, to: last }]);
  assert.deepEqual([run(0, 2), run(1, 20)], [3, 30]);
  step(2, last);
  assert.deepEqual([run(0, 4), run(1, 40)], [7, 70]);
  states.dispose();
});
