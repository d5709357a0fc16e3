/** The built-in OCR model on both backends: every golden image gives its golden text. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { openModel } from "../fixtures/engine/model.ts";

const FOLDER = findModelFolder("hearth-demo-ocr")!;

interface Golden {
  readonly image: string;
  readonly text: string;
}

const goldens: readonly Golden[] =
  JSON.parse(await Deno.readTextFile(`${FOLDER}/golden.json`)).cases;

async function assertReadings(backend: Backend): Promise<void> {
  await using model = await openModel(FOLDER, { backend });
  const answers = await Promise.all(
    goldens.map(async ({ image }) =>
      await chat(model, [imageMessage(await Deno.readFile(`${FOLDER}/${image}`))])
    ),
  );
  const read = answers.map(({ texts }, index) => ({ ...goldens[index]!, text: texts[0] }));
  assert.deepEqual(read, goldens);
}

cpuTest("hearth-demo-ocr reads its golden images on the CPU", assertReadings);

gpuTest(
  "hearth-demo-ocr reads its golden images on WebGPU",
  async (gpu) => await assertReadings(await WebGpuBackend.create(gpu)),
);
