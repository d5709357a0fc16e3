/** The built-in OCR model on both backends: every golden image gives its golden text. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { withGraph } from "../../src/graph/file/proto.ts";
import { writeModel } from "../../src/graph/file/proto_codec.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { ModelFolder } from "../fixtures/models/model_folder.ts";
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

/** Moves the weights of a folder's graphs to files beside them. @returns the names of these files. */
async function moveWeights(folder: string): Promise<string[]> {
  const names = Array.from(Deno.readDirSync(folder), ({ name }) => name)
    .filter((name) => name.endsWith(".onnx"));
  for (const name of names) {
    await using files = new FolderFiles(folder);
    const model = await readModel(files, name);
    const initializers = model.graph.initializers.map((tensor) =>
      tensor.data.kind === "file"
        ? { ...tensor, data: { ...tensor.data, file: `${name}_data` } }
        : tensor
    );
    await Deno.rename(join(folder, name), join(folder, `${name}_data`));
    await Deno.writeFile(join(folder, name), writeModel(withGraph(model, { initializers })));
  }
  return names.map((name) => join(folder, `${name}_data`));
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
