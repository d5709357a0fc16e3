import assert from "node:assert/strict";
import { BUILT, makeHead, SCRIPT } from "../../../scripts/page.ts";

Deno.test("src/ui/built is built from the current sources (deno task page)", async () => {
  const script = await Deno.readTextFile(SCRIPT);
  const head = await makeHead();
  assert.equal(script.slice(0, head.length), head);
});

/** The maximum compressed bytes of the page and of its lazily loaded parts. */
const MOST_BYTES = {
  "script.js": 120_000,
  "code_colours.js": 100_000,
  "formulas.js": 90_000,
  "formulas.css": 280_000,
  "mcp.js": 100_000,
  "microphone_worklet.js": 1_000,
} as const;

Deno.test("each part of the page is smaller than its limit when compressed", async () => {
  for (const [name, most] of Object.entries(MOST_BYTES)) {
    const bytes = await Deno.readFile(new URL(name, BUILT));
    const packed = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
    const { byteLength } = await new Response(packed).arrayBuffer();
    assert.ok(byteLength < most, `${name}: ${byteLength}`);
  }
});
