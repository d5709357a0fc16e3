import assert from "node:assert/strict";
import {
  findOriginalJson,
  findOriginalObjects,
  writeOriginalJson,
} from "../../src/server/http/body/decode_json.ts";
import { readJson } from "../../src/server/http/body/body.ts";
import { TestApp } from "../fixtures/servers/server.ts";

const SCHEMA =
  '{"type": "object", "properties": {"b": {"minimum": 1.0, "maximum": 9007199254740993, "step": 1e-7}}}';

function chat(schema: string, rest = ""): string {
  return `{"model": "m", "temperature": 1.0, "messages": [{"role": "user", "content": "Hi"}], ` +
    `"tools": [{"type": "function", "function": {"name": "f", "parameters": ${schema}}}]${rest}}`;
}

Deno.test("findOriginalObjects() finds objects with numbers or orders of keys that JavaScript does not preserve", () => {
  const found = (schema: string) => findOriginalObjects(chat(schema)).map(({ json }) => json);
  for (
    const kept of [
      '{"a": 1.0}',
      '{"a": -0.0}',
      '{"a": [{"b": 1E3}]}',
      '{"a": 12345678901234567890}',
      '{"10": 1, "9": 2}',
      '{"x": "}\\"{", "a": 2.00}',
    ]
  ) {
    assert.deepEqual(found(kept), [kept]);
  }
  for (const same of ['{"a": 1}', '{"a": 1.5}', '{"a": "1.0"}', '{"a": "\\"x\\": 1.0"}', "{}"]) {
    assert.deepEqual(found(same), [], same);
  }
  assert.deepEqual(findOriginalObjects('{"temperature": 1.0, "messages": []}'), []);
  assert.deepEqual(
    findOriginalObjects('[0, {"input": {"x": 1.0, "input": {}}}, {"arguments": {"y": 2.0}}]'),
    [
      { path: [1, "input"], json: '{"x": 1.0, "input": {}}' },
      { path: [2, "arguments"], json: '{"y": 2.0}' },
    ],
  );
});

Deno.test("readJson() remembers how objects were written, in small and large bodies", async () => {
  for (const filler of ["", " ".repeat(300 * 1024)]) {
    const request = new Request("http://localhost", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: chat(SCHEMA, filler),
    });
    const body = await readJson(request) as {
      tools: { function: { parameters: object } }[];
    };
    assert.equal(findOriginalJson(body.tools[0]!.function.parameters), SCHEMA);
  }
  assert.equal(writeOriginalJson({ a: 1 }), '{"a":1}');
});

Deno.test("chat templates show schemas and arguments with numbers as they were written", async () => {
  await using app = await new TestApp().ready();
  const call =
    '{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"x": 1.0, "y": null}}}';
  const prompt = async (messages: string) => {
    const body = chat(SCHEMA).replace(/"messages": \[.*?\]/, `"messages": [${messages}]`);
    const response = await app.post("/apply-template", body);
    const answer = await response.json();
    assert.equal(response.status, 200, JSON.stringify(answer));
    return answer.prompt as string;
  };
  const rendered = await prompt(
    `{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [${call}]}, ` +
      `{"role": "tool", "tool_call_id": "c", "content": "ok"}, {"role": "user", "content": "Hi"}`,
  );
  assert.ok(rendered.includes(SCHEMA.replace("1e-7", "1e-07")), rendered);
  assert.ok(rendered.includes('{"x": 1.0, "y": null}'), rendered);
});
