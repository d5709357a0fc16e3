/** The examples of the documentation on its sample files, with the built-in models. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runHearth } from "../../fixtures/servers/hearth_process.ts";

const SAMPLES = fileURLToPath(new URL("../../../docs/samples/", import.meta.url));
const SENTENCE = "Set a timer for ten minutes.";

async function run(model: string, ...flags: string[]): Promise<string> {
  const { code, stdout, stderr } = await runHearth(["run", model, "--device", "cpu", ...flags]);
  assert.equal(code, 0, stderr);
  return stdout.trimEnd();
}

Deno.test("run of the built-in models gives the answers in the documentation for its samples", async () => {
  assert.equal(await run("hearth-demo-asr", "-i", `${SAMPLES}timer.mp3`), SENTENCE);
  const answer = await run(
    "hearth-demo-vision",
    ...["-i", `${SAMPLES}circle.png`, "-i", "What is this?"],
  );
  assert.equal(answer, "A red circle on a white background.");
  const rows = await run("hearth-demo-ocr", "-i", `${SAMPLES}receipt.png`);
  assert.equal(rows, "Tea for two\nTotal: 7.50\nThank you!");
});

Deno.test("hearth-demo-asr transcribes the speech of hearth-demo-tts", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const file = join(folder, "a.wav");
    await run("hearth-demo-tts", "-i", SENTENCE, "-o", file);
    assert.equal(await run("hearth-demo-asr", "-i", file), SENTENCE);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
