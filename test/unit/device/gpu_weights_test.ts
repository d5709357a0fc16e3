/** Weights of kernels and sessions are on the device once; sessions keep only small constants. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import { compileForGpu } from "../../../src/cli/cut_report.ts";
import { cutForGpu } from "../../../src/program/adapt_cut.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { liftWeights } from "../../../src/graph/rewrite/webgpu_graph.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { countStoredBytes } from "../../../src/graph/file/tensor.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";

const CASES = [
  ["../../../models/hearth-demo-chat/onnx", "model.onnx", 0],
  ["../../../models/hearth-demo-chat/onnx", "model_q4f16.onnx", 0],
  // The first two of its three segments are given to ONNX Runtime.
  ["../../fixtures/graphs/exports", "gpt_neox_dynamo_18.onnx", 2],
] as const;

for (const [folder, file, numOfOrt] of CASES) {
  gpuTest(
    `DeviceWeights.upload() stores the weights of ${file} once, and sessions keep only small constants`,
    async (gpu) => {
      await using files = new FolderFiles(fileURLToPath(new URL(folder, import.meta.url)));
      const result = cutGraph(await readModel(files, file), { contextLength: 64 });
      assert.ok("cut" in result);
      const compiled = compileForGpu(result.cut);
      assert.ok(!compiled.some((each) => "refused" in each));
      const { segments } = cutForGpu(result.cut, Infinity);
      const read = compiled.slice(numOfOrt).flatMap((each) =>
        "refused" in each ? [] : [each.few, each.many].flatMap(({ weights }) => weights)
      );
      const lifted = segments.filter(({ index }) => index < numOfOrt)
        .map(({ model }) => liftWeights(model));
      const buffers = [...read, ...lifted.flatMap(({ weights }) => weights)];
      const constants = lifted.flatMap(({ model }) => model.graph.initializers);

      const backend = await WebGpuBackend.create(gpu);
      const weights = backend.openWeights(files);
      await weights.upload(buffers);
      const bytes = new Map(buffers.map((tensor) => [tensor.name, countStoredBytes(tensor)]));
      assert.equal(weights.numBytes, bytes.values().reduce((sum, each) => sum + each, 0));
      weights.dispose();
      for (const tensor of constants) assert.ok(countStoredBytes(tensor) < 32 * 1024, tensor.name);
      assert.equal(constants.length > 0, numOfOrt > 0);
    },
  );
}
