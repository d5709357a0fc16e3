/** Two hundred corrupted PDF files of several kinds, in a separate process with limits of memory and time. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(
  new URL("../../../fixtures/documents/document_mutations.ts", import.meta.url),
);
const ROUNDS = 200;
/** Much more than needed: only a hang takes that long. */
const MAX_SECONDS = 120;
const MAX_MB = 900;

const NAMES = [
  "object streams, linear",
  "form",
  "scan as fax",
  "scan as JPEG 2000",
  "RC4 of 40 bits",
];

for (const name of NAMES) {
  Deno.test(`PdfDocument survives ${ROUNDS} corrupted files: ${name}`, async () => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", SCRIPT, name, String(ROUNDS)],
      signal: AbortSignal.timeout(1000 * MAX_SECONDS),
    }).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
    const { numRefused, mostMb } = JSON.parse(new TextDecoder().decode(stdout));
    // PDFium repairs much of the damage.
    assert.ok(numRefused > 10, `${numRefused} were refused`);
    assert.ok(mostMb < MAX_MB, `${mostMb} MB`);
  });
}
