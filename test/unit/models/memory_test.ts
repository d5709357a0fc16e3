import assert from "node:assert/strict";
import { StartupError } from "../../../src/base/errors.ts";
import { countMost, toDecodingLimits } from "../../../src/decoder/paged_decoder.ts";
import { StepExecutor } from "../../../src/decoder/step_executor.ts";
import type { Backend } from "../../../src/device/backend.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { openFolder } from "../../../src/hub/model_folder.ts";
import {
  estimateCutNeeds,
  type MemoryNeeds,
  type MemoryOffer,
  requireMemory,
  weighOtherDtypes,
} from "../../../src/models/folder/memory.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";

const MB = 1e6;
const NEEDS: MemoryNeeds = {
  weightsBytes: 2000 * MB,
  largestWeightBytes: 300 * MB,
  cacheBytes: 1000 * MB,
  stateBytes: 0,
  activationBytes: 50 * MB,
  largestActivationBytes: 50 * MB,
};
const OFFER: MemoryOffer = {
  backend: { kind: "cpu", runtime: "web", maxBufferBytes: 2 ** 31 },
  availableBytes: 8000 * MB,
  otherDtypes: [
    { dtype: "fp32", weightsBytes: 8000 * MB },
    { dtype: "q4", weightsBytes: 500 * MB },
  ],
};

function refusal(needs: Partial<MemoryNeeds>, offer: Partial<MemoryOffer>): string {
  try {
    requireMemory({ ...NEEDS, ...needs }, { ...OFFER, ...offer });
  } catch (error) {
    assert.ok(error instanceof StartupError);
    return error.message;
  }
  return "";
}

Deno.test("requireMemory() admits models that fit, or cannot be measured", () => {
  assert.equal(refusal({}, {}), "");
  assert.equal(refusal({}, { availableBytes: 3050 * MB }), "");
  assert.equal(refusal({}, { availableBytes: undefined }), "");
});

Deno.test("requireMemory() refuses with the size of each part, and names a KV cache that would fit", () => {
  const message = refusal({}, { availableBytes: 3000 * MB });
  assert.match(message, /2\.00 GB for weights, 1\.00 GB for keys and values, 50\.0 MB for activ/);
  assert.match(message, /3\.00 GB of the machine's memory is free/);
  const [, mib] = /a KV cache of (\d+) MiB\.$/.exec(message)!;
  assert.equal(refusal({ cacheBytes: Number(mib) * 2 ** 20 }, { availableBytes: 3000 * MB }), "");
});

Deno.test("requireMemory() names the dtypes that would fit if the weights alone do not", () => {
  const message = refusal({}, { availableBytes: 1500 * MB });
  assert.match(message, /It would fit in q4 \(500 MB\)\.$/);
  assert.match(
    refusal({}, { availableBytes: 300 * MB }),
    /a smaller model or smaller weights\.$/,
  );
});

Deno.test("requireMemory() limits onnxruntime-web to the size of a WebAssembly memory", () => {
  const message = refusal({ weightsBytes: 5000 * MB }, { availableBytes: 64_000 * MB });
  assert.match(message, /take 5\.00 GB, and onnxruntime-web loads at most 4\.29 GB .*fit in q4/);
  const backend = { kind: "cpu", runtime: "native", maxBufferBytes: 2 ** 31 } as const;
  const weightsBytes = 5000 * MB;
  assert.equal(refusal({ weightsBytes }, { backend }), "");
});

Deno.test("requireMemory() refuses a tensor larger than the device's buffers", () => {
  const backend = { kind: "webgpu", runtime: "web", maxBufferBytes: 256 * MB } as const;
  assert.match(
    refusal({}, { backend }),
    /takes 300 MB, and buffers of this device hold at most 256 MB/,
  );
});

Deno.test("requireMemory() refuses steps whose activations are larger than the device's buffers", () => {
  const needs = { largestWeightBytes: 1, largestActivationBytes: 200 * MB };
  const backend = { kind: "webgpu", runtime: "web", maxBufferBytes: 128 * MB } as const;
  assert.match(
    refusal(needs, { backend }),
    /a step take a buffer of 200 MB, .* hold at most 128 MB\. Choose fewer tokens/,
  );
  assert.equal(refusal(needs, {}), "");
});

Deno.test("requireMemory() does not refuse a GPU's model that exceeds the machine's free memory", () => {
  const backend = { kind: "webgpu", runtime: "web", maxBufferBytes: 2 ** 31 } as const;
  assert.equal(refusal({}, { backend, availableBytes: 100 * MB }), "");
});

Deno.test("weighOtherDtypes() adds up a graph's files in the other dtypes of its folder", async () => {
  const folder = await openFolder(
    new URL("../../../models/hearth-demo-chat", import.meta.url).pathname,
  );
  const others = await weighOtherDtypes({ folder, graph: "model", dtype: "fp32" });
  assert.deepEqual(others.map(({ dtype }) => dtype), ["fp16", "q4", "q4f16"]);
  for (const { dtype, weightsBytes } of others) {
    const file = `${folder.path}/onnx/model_${dtype}.onnx`;
    assert.equal(weightsBytes, (await Deno.stat(file)).size);
  }
});

Deno.test("estimateCutNeeds() counts the activations of prompt steps and of decoding steps", async () => {
  const graph = "onnx/model_q4.onnx";
  const model = await readModel(new FolderFiles(findModelFolder("hearth-demo-chat")!), graph);
  const result = cutGraph(model, { contextLength: 2048 });
  assert.ok("cut" in result);
  const { cut } = result;
  const limits = { maxBatchTokens: 500, maxSequences: 60 };
  const steps = [limits, toDecodingLimits(limits)].map(countMost);
  const allocated: number[] = [];
  const executor = new StepExecutor({
    backend: {
      allocate: (numBytes: number) => {
        allocated.push(numBytes);
      },
    } as unknown as Backend,
    cut,
    most: steps[0]!,
    mostDecoding: steps[1],
    attend: () => assert.fail(),
  });
  // The executor's buffers are allocated on first use.
  void executor.buffers;
  const { activationBytes } = estimateCutNeeds(cut, { steps, sharesWeights: true });
  assert.equal(activationBytes, allocated.reduce((sum, bytes) => sum + bytes, 0));
});
