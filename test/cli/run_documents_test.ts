import assert from "node:assert/strict";
import { join } from "node:path";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import { documentFile } from "../fixtures/documents/documents.ts";

Deno.test("run reads PDF files: an OCR model page by page, a chat model as text, and no more pages than allowed", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = join(folder, "text.pdf");
    await Deno.writeFile(path, documentFile("text"));
    const read = await runHearth(["run", "hearth-demo-ocr", "-i", path]);
    const [first, second] = read.stdout.split("\n\f");
    assert.match(first!, /^Invoice 1: 42 EUR\nThe quick brown fox/);
    assert.match(second!, /^Invoice 2: 42 EUR\nThe quick brown fox/);
    const refused = await runHearth([
      ...["run", "hearth-demo-chat", "-i", path, "-i", "What is this?", "--max-pdf-pages", "1"],
    ]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /text\.pdf: The PDF has 2 pages; at most 1 are allowed/);
    const words = ["--max-tokens", "5", "--temperature", "0"];
    const answered = await runHearth([
      ...["run", "hearth-demo-chat", "-i", path, "-i", "What is this?", ...words],
    ]);
    assert.equal(answered.code, 0, answered.stderr);
    assert.notEqual(answered.stdout.trim(), "");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
