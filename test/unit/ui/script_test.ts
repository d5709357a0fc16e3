import assert from "node:assert/strict";
import { bundleHead, SCRIPT } from "../../../scripts/page.ts";

Deno.test("src/ui/script.js is made of today's sources (deno task page)", async () => {
  const script = await Deno.readTextFile(SCRIPT);
  const head = await bundleHead();
  assert.equal(script.slice(0, head.length), head);
});

Deno.test("the page is at most 300 kB compressed", async () => {
  const script = await Deno.readTextFile(SCRIPT);
  const packed = new Blob([script]).stream().pipeThrough(new CompressionStream("gzip"));
  const { byteLength } = await new Response(packed).arrayBuffer();
  assert.ok(byteLength < 300_000, `${byteLength}`);
});
