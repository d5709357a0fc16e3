/**
 * The thread in which `doctor` tests a device. Only this thread imports ONNX Runtime, so that the command starts at
 * once.
 *
 * @module
 */
import "../device/ort/no_location.ts";
import { CpuBackend } from "../device/cpu/cpu.ts";
import { type BackendOptions, openBackend } from "../device/open.ts";
import { configureLog } from "../base/log.ts";
import { GREEDY, type SampleRow } from "../../kernels/sample/sample_row.ts";
import type { Backend } from "../device/backend.ts";
import { Tensor } from "../device/ort/ort.ts";

/** The result of a test, in words. */
export interface DeviceTestResult {
  readonly status: "ok" | "warning" | "failed";
  readonly text: string;
}

const scope = globalThis as unknown as {
  postMessage(result: DeviceTestResult): void;
  onmessage: ((event: MessageEvent<BackendOptions>) => void) | null;
};
configureLog({ level: "error", format: "text" });
scope.onmessage = async ({ data }) => scope.postMessage(await testDevice(data));

async function testDevice(options: BackendOptions): Promise<DeviceTestResult> {
  try {
    const backend = await openBackend(options);
    try {
      const text = await testBackend(backend);
      const isSlow = backend instanceof CpuBackend && options.cpuRuntime === "auto" &&
        backend.runtime === "web";
      if (!isSlow) return { status: "ok", text };
      return {
        status: "warning",
        text: `${text}; onnxruntime-node, which is much faster, does not load`,
      };
    } finally {
      await backend.dispose();
    }
  } catch (error) {
    return { status: "failed", text: (error as Error).message };
  }
}

const ROWS = 4;
const VOCAB_SIZE = 4096;

const GREEDY_ROW: SampleRow = {
  params: GREEDY,
  tokenIndex: 0,
  topLogprobs: 0,
};

/**
 * Tests a backend.
 *
 * @returns what works, in words.
 * @throws {Error} that says what does not work.
 */
async function testBackend(backend: Backend): Promise<string> {
  const logits = Float32Array.from(
    { length: ROWS * VOCAB_SIZE },
    (_, index) => Math.sin(index * 12.9898) * 4,
  );
  const dims = [1, ROWS, VOCAB_SIZE];
  const storage = backend.allocate(logits.byteLength);
  const sampler = backend.openSampler({ vocabSize: VOCAB_SIZE, dtype: "float32", maxRows: ROWS });
  try {
    storage?.write(new BigInt64Array(logits.buffer));
    const tensor = storage?.tensor("float32", dims) ?? new Tensor("float32", logits, dims);
    const back = await backend.read(tensor);
    const wrong = back.findIndex((value, index) => value !== logits[index]);
    if (wrong >= 0 || back.length !== logits.length) {
      throw new Error(`data was not read back as written: element ${wrong} of ${back.length}.`);
    }
    const tokens = await sampler.sample([{
      logits: tensor,
      rows: new Array(ROWS).fill(GREEDY_ROW),
    }]);
    tokens.forEach(({ tokenId }, row) => requireLargest(logits, row, tokenId));
  } finally {
    sampler.dispose();
    storage?.dispose();
  }
  return `${backend.adapter}: data is read back correctly, a kernel gives the right results`;
}

function requireLargest(logits: Float32Array, row: number, tokenId: number): void {
  const own = logits.subarray(row * VOCAB_SIZE, (row + 1) * VOCAB_SIZE);
  const expected = own.indexOf(own.reduce((most, value) => Math.max(most, value)));
  if (tokenId === expected) return;
  throw new Error(`the sampling kernel chose token ${tokenId} of row ${row}, not ${expected}.`);
}
