import assert from "node:assert/strict";
import { join } from "node:path";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import { OCR_GOLDENS } from "../fixtures/models/ocr_goldens.ts";
import { makeTinyOcr, ocrImage } from "../fixtures/models/tiny_ocr.ts";

Deno.test("run of an OCR model reads each image with the given instruction", async () => {
  await using tiny = await makeTinyOcr("florence");
  const goldens = OCR_GOLDENS.florence.filter(({ request }) => request === "<OCR>").slice(0, 2);
  const inputs: string[] = [];
  for (const { number } of goldens) {
    const path = join(tiny.folder, `${number}.png`);
    await Deno.writeFile(path, ocrImage(number));
    inputs.push("-i", path);
  }
  const words = ["run", tiny.folder, "--device", "cpu", "--max-tokens", "40"];
  const { code, stdout } = await runHearth([...words, ...inputs, "-i", "<OCR>"]);
  assert.equal(code, 0);
  assert.equal(stdout, goldens.map(({ text }) => `${text}\n`).join("\n"));
  const refused = await runHearth([...words, "-i", "What does it say?"]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /takes images or PDF files.*There is no file "What does it say\?"/);
});
