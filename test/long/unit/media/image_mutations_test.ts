/** Two hundred corrupted files for each decoder, in a separate process with limits of memory and time. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(
  new URL("../../../fixtures/images/image_mutations.ts", import.meta.url),
);
const ROUNDS = 200;
/** Much more than needed: only a hang takes that long. */
const MAX_SECONDS = 120;
/** The pixels of a 4-megapixel image need 16 MB; the rest is Deno and decoder instances that are not yet collected. */
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
  Deno.test(`decodeImage() survives ${ROUNDS} corrupted files of ${name}`, async () => {
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
