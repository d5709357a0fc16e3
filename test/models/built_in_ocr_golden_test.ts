/** The built-in OCR model on both backends: every golden image gives its golden text. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { ModelFolder } from "../fixtures/models/model_folder.ts";
import { moveWeights } from "../fixtures/models/move_weights.ts";
import { openModel } from "../fixtures/engine/model.ts";

const FOLDER = findModelFolder("hearth-demo-ocr")!;

interface Golden {
  readonly image: string;
  readonly text: string;
}

const goldens: readonly Golden[] =
  JSON.parse(await Deno.readTextFile(`${FOLDER}/golden.json`)).cases;

async function assertReadings(backend: Backend, folder = FOLDER): Promise<void> {
  await using model = await openModel(folder, { backend });
  const answers = await Promise.all(
    goldens.map(async ({ image }) =>
      await chat(model, [imageMessage(await Deno.readFile(`${FOLDER}/${image}`))])
    ),
  );
  const read = answers.map(({ texts }, index) => ({ ...goldens[index]!, text: texts[0] }));
  assert.deepEqual(read, goldens);
}

cpuTest("an OCR model reads its weights from files beside its graphs", async (backend) => {
  await using copy = await ModelFolder.create("hearth-demo-ocr");
  await copy.writeConfig(JSON.stringify(ModelFolder.readConfig("hearth-demo-ocr")));
  const [first] = await moveWeights(join(copy.path, "onnx"));
  await assertReadings(backend, copy.path);
  await Deno.truncate(first!, 5000);
  await assert.rejects(openModel(copy.path, { backend: new CpuBackend() }), {
    name: "StartupError",
    message: /onnx_data ends at byte 5000, but the graph needs \d+ bytes from \d+ on/,
  });
});

cpuTest("hearth-demo-ocr reads its golden images on the CPU", assertReadings);

gpuTest(
  "hearth-demo-ocr reads its golden images on WebGPU",
  async (gpu) => await assertReadings(await WebGpuBackend.create(gpu)),
);
