import assert from "node:assert/strict";
import { TextMeter } from "../../src/server/http/body/text_meter.ts";
import { Random } from "../unit/engine/random.ts";

const encoder = new TextEncoder();

/** Measures `json`, in chunks of at most `pieceBytes`. */
function measure(json: string, pieceBytes = Infinity): { textBytes: number; maxDepth: number } {
  const meter = new TextMeter();
  const bytes = encoder.encode(json);
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    meter.feed(bytes.subarray(at, at + pieceBytes));
  }
  return { textBytes: meter.textBytes, maxDepth: meter.maxDepth };
}

/** UTF-8 bytes of all names and strings in a value. */
function stringBytes(value: unknown): number {
  if (typeof value === "string") return encoder.encode(value).length;
  if (typeof value !== "object" || value === null) return 0;
  const names = Array.isArray(value) ? [] : Object.keys(value);
  return [...names, ...Object.values(value)].reduce<number>(
    (sum, each) => sum + stringBytes(each),
    0,
  );
}

/** UTF-8 bytes of all names and strings in JSON text. */
const getBytes = (json: string) => stringBytes(JSON.parse(json));

/** A chat request with `part` as its only part. */
function chat(part: string): string {
  return `{"messages":[{"role":"user","content":[{${part}}]}]}`;
}

Deno.test("TextMeter does not count media in the fields for media, in any of their formats", () => {
  const media = "A".repeat(1000);
  for (
    const part of [
      `"image_url":"base64://${media}"`,
      `"type":"image_url","image_url" : {"detail":"low","url" : "data:image/png;base64,${media}"}`,
      `"audio_url":{"url":"data:audio/wav;base64,${media}"}`,
      `"audio_url":"base64://${media}"`,
      `"input_audio":{"data":"${media}","format":"wav"}`,
      `"source":{"data":"${media}","type":"base64"},"type":"image"`,
      `"type":"image","source":{"type":"base64","data":"${media}"}`,
      `"type":"document","source":{"content":[{"type":"image","source":{"data":"${media}"}}]}`,
    ]
  ) {
    const json = chat(part);
    const { textBytes } = measure(json);
    assert.ok(textBytes <= getBytes(json) - 1000, json);
    assert.ok(textBytes > getBytes(json) - 1040, json);
  }
});

Deno.test("TextMeter does not count images next to a message's content, with or without a prefix", () => {
  const media = "A".repeat(1000);
  for (const image of [media, `base64://${media}`, `data:image/png;base64,${media}`]) {
    const json = `{"messages":[{"content":"x","images":["${image}","${image}"]}]}`;
    for (const pieceBytes of [Infinity, 7, 1]) {
      const { textBytes } = measure(json, pieceBytes);
      const all = getBytes(json) - 2000;
      // The first bytes of base64 without a prefix count as text if they arrive before it is recognized.
      assert.ok(textBytes <= all + 30 && textBytes > all - 60, json);
    }
  }
  for (
    const json of [`{"images":["${media}"]}`, '{"messages":[{"images":["https://a.b/c.png"]}]}']
  ) {
    assert.equal(measure(json).textBytes, getBytes(json));
  }
});

Deno.test("TextMeter counts what looks like media in other fields as text", () => {
  for (
    const json of [
      '{"input":"data:text/plain,AAAA"}',
      '{"input":["base64://AAAA"]}',
      '{"query":"base64://AAAA","documents":["data:AAAA",{"text":"data:AAAA"}]}',
      '{"messages":[{"role":"user","content":"base64://AAAA"}]}',
      chat('"type":"text","text":"data:AAAA"'),
      chat('"text":{"url":"base64://AAAA"}'),
      chat('"type":"document","source":{"type":"text","data":"AAAA"}'),
      chat('"source":{"type":"text","data":"AAAA"}'),
      chat('"input_audio":{"datum":"AAAA"}'),
      chat('"image_url":"data:image/svg+xml,%3Csvg%2F%3E"'),
      chat(`"image_url":"data:${"a".repeat(300)};base64,AAAA"`),
      chat('"image_url":"http://AAAA"'),
      chat('"image_url":{"urls":["base64://AAAA"]}'),
      '{"data":"AAAA"}',
      '{"image_url":"base64://AAAA"}',
      '{"image_url":"base64://AAAA","messages":[{"content":[]}]}',
      '[{"messages":[{"content":[{"image_url":"base64://AAAA"}]}]}]',
      '{"messages":[{"content":[{"a":1}],"image_url":"base64://AAAA"}]}',
    ]
  ) assert.equal(measure(json).textBytes, getBytes(json), json);
});

Deno.test("TextMeter counts only the UTF-8 bytes of strings, in any notation", () => {
  const random = new Random(3);
  const letters = ["a", '"', "\\", "\n", "\u0001", "é", "я", "中", "😀", "\ud800", "\udc00", "/"];
  const escape = (letter: string) =>
    letter.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
      .join("");
  for (let round = 0; round < 300; round++) {
    const text = Array.from({ length: 20 }, () => random.pick(letters)).join("");
    const written = [
      JSON.stringify(text),
      `"${text.split("").map(escape).join("")}"`,
      `"${
        text.split("").map((each) =>
          random.chance(0.5) ? escape(each) : JSON.stringify(each).slice(1, -1)
        ).join("")
      }"`,
    ];
    // In `mixed`, half of a surrogate pair may be escaped; UTF-8 cannot encode the other half.
    const [plain, escaped, mixed] = written.map((value) =>
      `{"input" : [\n${value}, 123456, true ,${value}]}`
    );
    assert.equal(measure(escaped!).textBytes, stringBytes({ input: [text, text] }), text);
    for (const json of [plain!, escaped!, mixed!]) {
      for (const pieceBytes of [Infinity, 1, 3]) {
        const decoded = JSON.parse(new TextDecoder().decode(encoder.encode(json)));
        const wanted = stringBytes(decoded);
        assert.equal(measure(json, pieceBytes).textBytes, wanted, json);
      }
    }
  }
});

Deno.test("TextMeter counts values, objects, and the names of the object that has the most", () => {
  const meter = new TextMeter();
  meter.feed(encoder.encode('{"a":[1,2,{"x":1}],"b":{"c":"{,:","d":2,"e":3}}'));
  assert.equal(meter.numObjects, 3);
  assert.equal(meter.maxNames, 3);
  assert.equal(meter.numValues, 4 + 5);
});

Deno.test("TextMeter.maxDepth ignores brackets in strings", () => {
  assert.equal(measure('{"a":[{"b":"[[[[{{{{"}],"c":"\\"[[[["}').maxDepth, 3);
  assert.equal(measure("[".repeat(500)).maxDepth, 500);
});

Deno.test("TextMeter measures the same depth and almost the same text for any division of the bytes", () => {
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
    '{"messages":[{"content":[{"image_url":',
    '"image_url":',
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
      // The first bytes of a media string count as text if they arrive before it is recognized.
      assert.ok(textBytes >= whole.textBytes, json);
      assert.ok(textBytes - whole.textBytes <= 16 * json.split('"').length, json);
    }
  }
});
