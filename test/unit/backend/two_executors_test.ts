/** What both executors read is on the device once; of ONNX Runtime's constants our kernels have a copy, all of them small. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { WebGpuBackend } from "../../../src/backend/webgpu.ts";
import { compileForGpu, ownConstants } from "../../../src/cli/cut_report.ts";
import { cutForGpu } from "../../../src/onnx/compile/gpu_cut.ts";
import { splitGraph } from "../../../src/onnx/cut/split.ts";
import { liftWeights } from "../../../src/onnx/cut/weight_inputs.ts";
import { FolderFiles } from "../../../src/onnx/file/external_data.ts";
import { readModel } from "../../../src/onnx/file/proto_read.ts";
import { storedBytes, type StoredTensor } from "../../../src/onnx/file/stored_tensor.ts";
import { gpuTest } from "../../fixtures/gpu.ts";

const FOLDER = fileURLToPath(new URL("../../../models/hearth-demo-chat/onnx", import.meta.url));

const bytesOf = (tensors: readonly StoredTensor[]) =>
  new Map(tensors.map((tensor) => [tensor.name, storedBytes(tensor)])).values()
    .reduce((sum, bytes) => sum + bytes, 0);

for (const file of ["model.onnx", "model_q4f16.onnx"]) {
  gpuTest(`${file}: our kernels take few bytes besides what sessions read too`, async (gpu) => {
    await using files = new FolderFiles(FOLDER);
    const result = splitGraph(await readModel(files, file), { contextLength: 64 });
    assert.ok("cut" in result);
    const compiled = compileForGpu(result.cut);
    const { segments } = cutForGpu(result.cut, Infinity);
    const lifted = segments.map(({ model }) => liftWeights(model));
    const own = ownConstants(compiled, lifted);
    const read = compiled.flatMap((each) => "refused" in each ? [] : each.few.weights);

    const backend = await WebGpuBackend.create(gpu);
    const weights = backend.openWeights(files);
    await weights.upload(lifted.flatMap((each) => each.weights));
    const shared = weights.numBytes;
    await weights.upload(read);
    assert.equal(weights.numBytes - shared, bytesOf(own));
    weights.dispose();
    // Sessions hold no constant that is worth an input.
    for (const tensor of own) assert.ok(storedBytes(tensor) < 32 * 1024, tensor.name);
    assert.ok(own.length > 0);
  });
}
