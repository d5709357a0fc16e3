/** Two hundred spoilt files of each decoder, in a process of its own with bounds of memory and time. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(
  new URL("../../../fixtures/images/image_mutations.ts", import.meta.url),
);
const ROUNDS = 200;
/** Far more than it takes: only a hang is that long. */
const MAX_SECONDS = 120;
/** Pixels of 4 megapixels take 16 MB; the rest is Deno and the instances of a decoder that are not collected yet. */
const MAX_MB = 700;

const NAMES = [
  "tiff group 3 in two dimensions",
  "tiff group 4",
  "tiff fax by Huffman codes alone",
  "tiff of JPEG in tiles",
  "bigtiff RGB",
  "tiff 12 bits of 3 samples",
  "dib P",
  "avif without pixi",
  "heic 10 bits",
  "heic grid, turned",
];

for (const name of NAMES) {
  Deno.test(`decodeImage() bears ${ROUNDS} spoilt files of ${name}`, async () => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", SCRIPT, name, String(ROUNDS)],
      signal: AbortSignal.timeout(1000 * MAX_SECONDS),
    }).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
    const { numRefused, mostMb } = JSON.parse(new TextDecoder().decode(stdout));
    assert.ok(numRefused > 20, `${numRefused} were refused`);
    assert.ok(mostMb < MAX_MB, `${mostMb} MB`);
  });
}
