import assert from "node:assert/strict";
import type { ChatCompletion } from "../../src/wire/chat_response.ts";
import { hostileFields } from "../fixtures/text/hostile_schemas.ts";
import { getFaults } from "../fixtures/text/json_validator.ts";
import { RandomSchemas } from "../fixtures/text/random_schemas.ts";
import { chatBody, shareApp, TestApp } from "../fixtures/servers/server.ts";
import { Random } from "../unit/engine/random.ts";

const app = shareApp();

const CHAT = "/v1/chat/completions";
/** Fewer on WebGPU: a software adapter is many times slower, and the device only applies masks of allowed tokens. */
const NUM_SCHEMAS = { cpu: 32, webgpu: 6 };
const NUM_AT_ONCE = 16;

async function complete(app: TestApp, extra: Record<string, unknown>): Promise<ChatCompletion> {
  const response = await app.post(CHAT, chatBody(extra));
  const body = await response.json();
  assert.equal(response.status, 200, JSON.stringify(body));
  return body;
}

function readText({ choices }: ChatCompletion, index = 0): string {
  return choices[index]!.message.content as string;
}

/** Runs jobs, several at a time. */
async function runAll<T>(jobs: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const queue = [...jobs.entries()];
  const work = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      results[next[0]] = await next[1]();
    }
  };
  await Promise.all(Array.from({ length: NUM_AT_ONCE }, work));
  return results;
}

for (const device of ["cpu", "webgpu"] as const) {
  Deno.test(`complete answers match random schemas at temperature 0, 1 and 2 (${device})`, async () => {
    await using app = await new TestApp({ device }).ready();
    const random = new Random(14);
    const schemas = new RandomSchemas(() => random.between(0, 2 ** 30 - 1) / 2 ** 30);
    const numSchemas = NUM_SCHEMAS[device];
    let numEnded = 0;
    const jobs = Array.from({ length: numSchemas }, (_, i) => {
      const schema = schemas.document();
      return [0, 1, 2].map((temperature) => async () => {
        const completion = await complete(app, {
          temperature,
          seed: i,
          // A step takes many times as long on a software adapter.
          max_tokens: device === "cpu" ? 160 : 48,
          response_format: { type: "json_schema", json_schema: { name: `schema_${i}`, schema } },
        });
        const { finish_reason } = completion.choices[0]!;
        const text = readText(completion);
        if (finish_reason === "length") return;
        assert.equal(finish_reason, "stop");
        numEnded++;
        assert.equal(getFaults(schema, JSON.parse(text)), "", `${text}\n${JSON.stringify(schema)}`);
      });
    }).flat();
    await runAll(jobs);
    assert.ok(numEnded > numSchemas / 2, `only ${numEnded} of ${jobs.length} answers ended`);
  });

  Deno.test(`structured requests get the same tokens alone and together (${device})`, async () => {
    const fields = [
      { response_format: { type: "json_object" } },
      { structured_outputs: { regex: "([a-z]+ ){40,60}[A-Z]+" } },
      { grammar: 'root ::= "<" [a-z]{30,90} (root | "!") ">"' },
      { ignore_eos: true },
    ];
    // A step takes many times as long on a software adapter.
    const most = device === "cpu" ? 120 : 30;
    const bodies = Array.from({ length: device === "cpu" ? 12 : 8 }, (_, i) => ({
      ...fields[i % fields.length],
      temperature: 1.5,
      seed: i,
      n: 1 + i % 2,
      max_tokens: [1, most, most][i % 3],
      logprobs: true,
      top_logprobs: 2,
    }));
    const strip = ({ choices }: ChatCompletion) =>
      choices.map(({ message, finish_reason, logprobs }) => ({
        content: message.content,
        finish_reason,
        tokens: logprobs!.content!.map(({ token }) => token),
      }));
    // On a GPU, steps of different sizes run in different kernels, whose rounding differs too much in half precision.
    const dtype = device === "webgpu" ? "fp32" : undefined;
    const alone = [];
    {
      await using app = await new TestApp({ device, dtype, engine: { prefixCache: false } })
        .ready();
      for (const body of bodies) alone.push(strip(await complete(app, body)));
    }
    // Together they need more blocks than exist, so the newest sequences lose their blocks and are computed again.
    await using app = await new TestApp({
      device,
      dtype,
      engine: { prefixCache: true, kvCacheMb: 1 },
    }).ready();
    const together = await runAll(
      bodies.map((body) => async () => strip(await complete(app, body))),
    );
    assert.deepEqual(together, alone);
    if (device === "webgpu") return;
    const metrics = await (await app.request("/metrics")).text();
    assert.match(metrics, /^hearth_preemptions_total [1-9]/m);
  });
}

Deno.test("log-probabilities are normalized over the tokens that the grammar allows", async () => {
  const completion = await complete(app, {
    structured_outputs: { choice: ["Paris", "London"] },
    logprobs: true,
    top_logprobs: 20,
    temperature: 2,
  });
  assert.ok(["Paris", "London"].includes(readText(completion)));
  assert.equal(completion.choices[0]!.finish_reason, "stop");
  for (const { token, logprob, top_logprobs } of completion.choices[0]!.logprobs!.content!) {
    assert.ok(top_logprobs.some((top) => top.token === token && top.logprob === logprob));
    const sum = top_logprobs.reduce((total, top) => total + Math.exp(top.logprob), 0);
    assert.ok(Math.abs(sum - 1) < 1e-4, `${token}: ${sum}`);
    assert.ok(top_logprobs.every((top) => "ParisLondon".includes(top.token)));
  }
});

Deno.test("a constrained answer may contain the text of the token that ends answers", async () => {
  const spelled = "<|im_end|>";
  const answers = [
    [{ structured_outputs: { choice: [spelled] } }, spelled],
    [{ guided_choice: [`a${spelled}b`] }, `a${spelled}b`],
    [{ structured_outputs: { regex: "<\\|im_end\\|>" } }, spelled],
    [{ structured_outputs: { json: { enum: [spelled] } } }, JSON.stringify(spelled)],
  ] as const;
  for (const [fields, wanted] of answers) {
    const completion = await complete(app, { ...fields, max_tokens: 40 });
    assert.equal(readText(completion), wanted, JSON.stringify(fields));
    assert.equal(completion.choices[0]!.finish_reason, "stop");
  }
});

Deno.test("an answer that max_tokens cuts off has finish_reason length, a complete one has stop", async () => {
  const schema = {
    type: "object",
    properties: { a: { const: true } },
    required: ["a"],
    additionalProperties: false,
  };
  const fields = { guided_json: JSON.stringify(schema) };
  const whole = await complete(app, { ...fields, max_tokens: 100 });
  assert.equal(whole.choices[0]!.finish_reason, "stop");
  assert.deepEqual(JSON.parse(readText(whole)), { a: true });
  const exact = await complete(app, { ...fields, max_tokens: whole.usage.completion_tokens });
  assert.equal(exact.choices[0]!.finish_reason, "stop");
  const cut = await complete(app, { ...fields, max_tokens: whole.usage.completion_tokens - 1 });
  assert.equal(cut.choices[0]!.finish_reason, "length");
  assert.ok(readText(whole).startsWith(readText(cut)));
});

Deno.test("response_format text and null change nothing", async () => {
  const plain = readText(await complete(app, {}));
  for (const response_format of [{ type: "text" }, null]) {
    assert.equal(readText(await complete(app, { response_format })), plain);
  }
});

Deno.test("only one field may constrain an answer", async () => {
  const response = await app.post(CHAT, chatBody({ grammar: 'root ::= "a"', json_schema: {} }));
  assert.equal(response.status, 400);
  assert.equal((await response.json()).error.param, "json_schema");
});

Deno.test("hostile schemas, patterns and grammars are refused, and other requests are answered meanwhile", async () => {
  const fields = hostileFields();
  assert.ok(fields.length >= 300, String(fields.length));
  const sizes = fields.map((field) => JSON.stringify(field).length);
  assert.equal(sizes.filter((size) => size > 9_000_000).length, 2, "schemas of 10 MB");
  let isOver = false;
  let numAnswered = 0;
  const others = (async () => {
    while (!isOver) {
      assert.equal(readText(await complete(app, {})), "The capital of France is Paris.");
      numAnswered++;
    }
  })();
  try {
    for (const field of fields) {
      const response = await app.post(CHAT, chatBody(field));
      const text = await response.text();
      const label = JSON.stringify(field).slice(0, 200);
      // A body with too many fields is refused before its schema is read.
      assert.ok([400, 413].includes(response.status), `${response.status} ${label}\n${text}`);
      assert.ok(text.length < 2000, label);
    }
  } finally {
    isOver = true;
    await others;
  }
  assert.ok(numAnswered > 0);
});
