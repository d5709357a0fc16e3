import assert from "node:assert/strict";
import { BODY_LIMITS } from "../../src/server/http/body/body.ts";
import {
  FormModelName,
  JsonModelName,
  type NameScanner,
  readModelName,
} from "../../src/router/read_model_name.ts";

const encoder = new TextEncoder();

/** The name, and the number of bytes read, for a body in chunks of the given length. */
function scan(
  scanner: NameScanner,
  body: Uint8Array,
  length: number,
): { name: string | undefined; numBytes: number } {
  let at = 0;
  while (at < body.length) {
    const isOver = scanner.push(body.subarray(at, at + length));
    at += length;
    if (isOver) break;
  }
  return { name: scanner.name, numBytes: Math.min(at, body.length) };
}

/** The name that `JSON.parse` finds. */
function parsedName(text: string): unknown {
  const { model } = JSON.parse(text.replace(/^\ufeff/, ""));
  return typeof model === "string" ? model : undefined;
}

const BODIES = [
  `{"model":"a"}`,
  `{ "model" : "a/b:c" , "x": [1, {"model": "no"}] }`,
  `{"messages":[{"role":"user","content":"\\"model\\": \\"no\\"","model":"no"}],"model":"yes"}`,
  `{"x":"model","model":"yes"}`,
  `{"x":"a\\\\","y":{"model":"no"},"model":"yes"}`,
  `{"mod\\u0065l":"\\u00e9\\ud83d\\ude00 é😀 \\"q\\""}`,
  `{"model":null,"messages":[]}`,
  `{"model":{"model":"no"}}`,
  `{"model":7}`,
  `{"a":"model","b":"x"}`,
  `{}`,
  `\ufeff\n\t {"model":"bom"}`,
  `{"":"model","model":""}`,
];

Deno.test("JsonModelName finds the same name as JSON.parse, in chunks of any length", () => {
  for (const text of BODIES) {
    const body = encoder.encode(text);
    for (let length = 1; length <= body.length; length++) {
      assert.equal(scan(new JsonModelName(), body, length).name, parsedName(text), text);
    }
  }
});

Deno.test("JsonModelName gives up immediately if the body is not an object", () => {
  for (const text of [`[{"model":"no"}]`, `"model"`, `7`, `model=a`, `<xml/>`]) {
    const { name, numBytes } = scan(
      new JsonModelName(),
      encoder.encode(`${text}${" ".repeat(99)}`),
      1,
    );
    assert.equal(name, undefined);
    assert.ok(numBytes < 3, text);
  }
});

Deno.test("JsonModelName reads only as far as the name", () => {
  const body = encoder.encode(`{"model":"a","input":"${"x".repeat(10_000)}"}`);
  assert.equal(scan(new JsonModelName(), body, 1).numBytes, `{"model":"a"`.length);
});

/** A form in the encoding of `fetch`. */
async function writeForm(
  fields: readonly (readonly [name: string, value: string | Blob])[],
): Promise<{ body: Uint8Array; contentType: string }> {
  const form = new FormData();
  for (const [name, value] of fields) form.append(name, value);
  const response = new Response(form);
  const contentType = response.headers.get("content-type")!;
  return { body: new Uint8Array(await response.arrayBuffer()), contentType };
}

Deno.test("FormModelName finds the field before and after a file that looks like a form", async () => {
  const decoy = `\r\n--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nno\r\n--x--\r\n`;
  const file = new File([decoy.repeat(3)], `name="model".wav`);
  for (
    const [fields, wanted] of [
      [[["model", "whisper-1"], ["file", file]], "whisper-1"],
      [[["file", file], ["language", "model"], ["model", "é/ü"]], "é/ü"],
      [[["file", file], ["models", "no"]], undefined],
      [[["model", ""], ["file", file]], ""],
      [[["language", ""], ["model", "a"]], "a"],
    ] as const
  ) {
    const { body, contentType } = await writeForm(fields);
    for (const length of [1, 2, 3, 7, 50, 4096]) {
      assert.equal(scan(new FormModelName(contentType), body, length).name, wanted);
    }
  }
});

Deno.test("FormModelName accepts boundaries and names without quotation marks, and other headers", () => {
  const body = encoder.encode(
    "preamble\r\n--b 1\r\nContent-Type: text/plain\r\ncontent-disposition: form-data; name=model\r\n\r\nx\r\n--b 1--",
  );
  for (const length of [1, 5, 999]) {
    const scanner = new FormModelName(`multipart/form-data; boundary="b 1"; charset=utf-8`);
    assert.equal(scan(scanner, body, length).name, "x");
  }
});

Deno.test("readModelName() allows a form whose file alone has maxBytes, and JSON of up to maxBytes", async () => {
  const limits = { ...BODY_LIMITS, maxBytes: 1000, maxTextBytes: 500 };
  const read = async (body: BodyInit, type: string, isWhole: boolean) => {
    const headers = { "content-type": type };
    const request = new Request("http://a/", { method: "POST", body, headers });
    using share = limits.budget.open();
    return await readModelName(request, { limits, share, isWhole });
  };
  const { body, contentType } = await writeForm([["file", new File([new Uint8Array(1000)], "a")], [
    "model",
    "whisper-1",
  ]]);
  const named = await read(body as BodyInit, contentType, false);
  assert.equal(named.name, "whisper-1");
  assert.deepEqual(await new Response(named.body).bytes(), body);
  const json = `{"model":"a","input":"${"x".repeat(900)}"}`;
  for (const isWhole of [false, true]) {
    const { name, body } = await read(json, "application/json", isWhole);
    assert.equal(name, "a");
    assert.equal(await new Response(body).text(), json);
  }
  // A body that is still arriving is read as far as the name, then counted as it is forwarded.
  const late = `{"input":"${"x".repeat(1000)}","model":"a"}`;
  await assert.rejects(
    read(ReadableStream.from([encoder.encode(late)]), "application/json", false),
    {
      kind: "payload_too_large",
    },
  );
});
