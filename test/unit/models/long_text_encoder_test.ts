import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { LongTextEncoder } from "../../../src/models/text/long_text_encoder.ts";
import { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";
import { unlessThere } from "../../fixtures/engine/goldens.ts";

const SHARED = fileURLToPath(new URL("../../../../shared/tokenizers", import.meta.url));
const MODELS = fileURLToPath(new URL("../../../models", import.meta.url));

function load(folder: string) {
  const read = (name: string) => JSON.parse(Deno.readTextFileSync(join(folder, name)));
  const tokenizer = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
  let numChars = 0;
  const own = tokenizer.encode.bind(tokenizer);
  tokenizer.encode = (text: string) => {
    numChars += text.length;
    return own(text);
  };
  const encode = (text: string) => own(text);
  const long = new LongTextEncoder(tokenizer);
  return { encode, long, numChars: () => numChars };
}

const PROSE =
  "The train leaves at 7:45, and it's late again.\nNobody knows why; “perhaps” the snow.\n\n" +
  "Der Zug fährt später ab. 火车晚点了。今天下雪。 café naïve\tindented\n    code = [1, 2];\r\n";
const NONE = { maxTokens: undefined, mayCut: false, what: "The text" };

for (
  const folder of [
    join(MODELS, "hearth-demo-chat"),
    join(MODELS, "hearth-demo-embed"),
    join(SHARED, "qwen3"),
    join(SHARED, "smollm-360m-instruct"),
    join(SHARED, "all-MiniLM-L6-v2"),
  ]
) {
  const ignore = !existsSync(folder);
  const name = folder.split("/").at(-1)!;
  const note = unlessThere(!ignore, `tokenizers/${name}`, "a published tokenizer");
  Deno.test(
    `LongTextEncoder encodes a long text to the same tokens as the tokenizer of ${name}${note}`,
    { ignore },
    () => {
      const { encode, long } = load(folder);
      const text = PROSE.repeat(800);
      assert.ok(text.length > 100_000);
      assertSameValues(long.encode(text, NONE), encode(text));
    },
  );
}

function existsSync(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false;
  }
}

Deno.test("LongTextEncoder refuses text longer than any context after reading little of it", () => {
  const { long, numChars } = load(join(MODELS, "hearth-demo-chat"));
  const options = { maxTokens: 512, mayCut: false, what: "The prompt", param: "messages" };
  for (const text of [PROSE.repeat(20_000), "a".repeat(4_000_000), " ".repeat(4_000_000)]) {
    assert.throws(() => long.encode(text, options), {
      kind: "context_length_exceeded",
      param: "messages",
      message:
        "The prompt has more than 1024 tokens; this model's maximum context length is 512 tokens.",
    });
  }
  assert.ok(numChars() < 100_000, `${numChars()} characters were read`);
});

Deno.test("LongTextEncoder.encodeInSlices() returns the same tokens, and lets other work run", async () => {
  const { encode, long } = load(join(MODELS, "hearth-demo-chat"));
  const text = PROSE.repeat(2_000);
  let numTurns = 0;
  const others = setInterval(() => numTurns++, 1);
  const signal = new AbortController().signal;
  assertSameValues(await long.encodeInSlices(text, NONE, signal), encode(text));
  assert.ok(numTurns > 0);
  clearInterval(others);
  assertSameValues(await long.encodeInSlices("short", NONE, signal), encode("short"));
  await assert.rejects(long.encodeInSlices(text, { ...NONE, maxTokens: 512 }, signal), {
    kind: "context_length_exceeded",
  });
  await assert.rejects(long.encodeInSlices(text, NONE, AbortSignal.abort()), {
    name: "AbortError",
  });
});

Deno.test("LongTextEncoder returns the first tokens if a text may be truncated, after reading little of it", () => {
  const { encode, long, numChars } = load(join(MODELS, "hearth-demo-embed"));
  const text = PROSE.repeat(20_000);
  const ids = long.encode(text, { maxTokens: 256, mayCut: true, what: "input" });
  assert.ok(numChars() < 100_000, `${numChars()} characters were read`);
  assert.deepEqual(ids.slice(0, 256), encode(PROSE.repeat(20)).slice(0, 256));
});

Deno.test("LongTextEncoder splits a word longer than a slice between characters", () => {
  const { long } = load(join(MODELS, "hearth-demo-chat"));
  assert.ok(long.encode("😀".repeat(30_000), NONE).length >= 30_000);
});
