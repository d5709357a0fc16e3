import assert from "node:assert/strict";
import { TextMeter } from "../../src/http/text_meter.ts";
import { Random } from "../unit/engine/random.ts";

const encoder = new TextEncoder();

/** Measures `json`, fed in pieces of at most `pieceBytes`. */
function measure(json: string, pieceBytes = Infinity): { textBytes: number; maxDepth: number } {
  const meter = new TextMeter();
  const bytes = encoder.encode(json);
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    meter.feed(bytes.subarray(at, at + pieceBytes));
  }
  return { textBytes: meter.textBytes, maxDepth: meter.maxDepth };
}

Deno.test("TextMeter leaves out media, in every form it may have", () => {
  const media = "A".repeat(1000);
  for (
    const [json, textBytes] of [
      [`{"url":"base64://${media}"}`, 10],
      [`{"url" : "data:audio/wav;base64,${media}"}`, 12],
      [`{"data":"${media}","format":"wav"}`, 26],
      [`{"data" : "${media}"}`, 13],
    ] as const
  ) assert.equal(measure(json).textBytes, textBytes, json);
});

Deno.test("TextMeter counts as text what only looks like media", () => {
  for (
    const json of [
      '{"content":"see base64://AAAA"}',
      '["data","AAAA"]',
      '{"data":["AAAA"]}',
      '{"x":"data"}',
      '{"datum":"AAAA"}',
      '{"a":"\\"","url":"database"}',
      '{"a":"\\\\","b":"base64:/"}',
    ]
  ) assert.equal(measure(json).textBytes, encoder.encode(json).length, json);
});

Deno.test("TextMeter.maxDepth ignores brackets in strings", () => {
  assert.equal(measure('{"a":[{"b":"[[[[{{{{"}],"c":"\\"[[[["}').maxDepth, 3);
  assert.equal(measure("[".repeat(500)).maxDepth, 500);
});

Deno.test("TextMeter measures the same however the bytes are cut", () => {
  const random = new Random(1);
  const pieces = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    " ",
    '"',
    "\\",
    '"data":',
    "base64://",
    "data:",
    "ä",
    "A",
  ];
  for (let round = 0; round < 500; round++) {
    const json = Array.from({ length: 30 }, () => random.pick(pieces)).join("");
    const whole = measure(json);
    for (const pieceBytes of [1, 2, 3, 7]) {
      const { textBytes, maxDepth } = measure(json, pieceBytes);
      assert.equal(maxDepth, whole.maxDepth, json);
      // The first bytes of a media string count as text when they come before it can be told.
      assert.ok(textBytes >= whole.textBytes, json);
      assert.ok(textBytes - whole.textBytes <= 9 * json.split('"').length, json);
    }
  }
});
