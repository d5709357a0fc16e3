import assert from "node:assert/strict";
import { createBuffer, type GpuContext } from "../../../src/gpu/device.ts";
import { Kernel } from "../../../src/gpu/kernel.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import { gpuTest, openTestDevice } from "../../fixtures/engine/gpu.ts";

/** Adds 1 to one word per workgroup. */
const SOURCE = `
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@compute @workgroup_size(1)
fn increment(@builtin(workgroup_id) group: vec3<u32>) { words[group.x] += 1u; }
`;

function openCounter(gpu: GpuContext) {
  const words = createBuffer(gpu, {
    size: 16,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  const kernel = Kernel.get(gpu, {
    name: "increment",
    source: SOURCE,
    bindings: { words: "read_write" },
    constants: {},
  });
  return {
    words,
    /** For each count, adds 1 to that many words, from the first on. */
    record: (...counts: number[]) => {
      for (const count of counts) kernel.encode(gpu.commands, { words }, [count]);
    },
    write: (...values: number[]) =>
      gpu.device.queue.writeBuffer(words, 0, Uint32Array.from(values)),
  };
}

gpuTest(
  "Commands prepares the commands of a repeated step, and runs them on newly written data",
  async () => {
    const gpu = await openTestDevice();
    const readback = await Readback.create(gpu, { maxBytes: 16 });
    const { words, record, write } = openCounter(gpu);
    const step = async (...counts: number[]) => {
      record(...counts);
      const bytes = await readback.readRecorded([{ buffer: words, offset: 0, size: 16 }]);
      return [...new Uint32Array(bytes.buffer)];
    };
    write(0, 0, 0, 0);
    const { commands } = gpu;
    assert.deepEqual(await step(1, 2), [2, 1, 0, 0]);
    assert.deepEqual(await step(1, 2), [4, 2, 0, 0]);
    assert.equal(commands.numReady, 0);
    // The second step showed that the commands repeat: from the third step on, they are prepared.
    write(10, 20, 30, 40);
    assert.deepEqual(await step(1, 2), [12, 21, 30, 40]);
    assert.deepEqual(await step(1, 2), [14, 22, 30, 40]);
    assert.equal(commands.numReady, 2);
    // Other commands replace them, and the prepared ones never run.
    assert.deepEqual(await step(1, 3), [16, 23, 31, 40]);
    assert.deepEqual(await step(1), [17, 23, 31, 40]);
    assert.deepEqual(await step(1, 3), [19, 24, 32, 40]);
    assert.equal(commands.numReady, 2);
    assert.equal(commands.numSubmits, 7);
    readback.dispose();
    gpu.device.destroy();
  },
);

gpuTest(
  "Commands submits recorded commands before an encoder, and nothing if there are none",
  async () => {
    const gpu = await openTestDevice();
    const readback = await Readback.create(gpu, { maxBytes: 16 });
    const { words, record, write } = openCounter(gpu);
    write(5, 5, 5, 5);
    record(4, 2);
    const encoder = gpu.device.createCommandEncoder();
    const bytes = await readback.read(encoder, [{ buffer: words, offset: 0, size: 16 }]);
    assert.deepEqual([...new Uint32Array(bytes.buffer)], [7, 7, 6, 6]);
    assert.equal(gpu.commands.numSubmits, 1);
    gpu.commands.submit();
    assert.equal(gpu.commands.numSubmits, 1);
    readback.dispose();
    gpu.device.destroy();
  },
);
