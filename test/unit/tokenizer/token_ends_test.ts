import assert from "node:assert/strict";
import { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";

const MODEL = { type: "WordLevel", vocab: { "<s>": 0, "</s>": 1, a: 2 }, unk_token: "a" };
const ENDS = { bos_token: "<s>", eos_token: { content: "</s>" } };

function template(...tokens: readonly string[]): unknown {
  const element = (token: string) =>
    token === "A"
      ? { Sequence: { id: "A", type_id: 0 } }
      : { SpecialToken: { id: token, type_id: 0 } };
  const ids = { "<s>": { ids: [0] }, "</s>": { ids: [1] } };
  return { type: "TemplateProcessing", single: tokens.map(element), special_tokens: ids };
}

function encodeWhole(config: Record<string, unknown>, post_processor: unknown = null): number[] {
  return new Tokenizer({ model: MODEL, post_processor }, { ...ENDS, ...config }).encodeWhole("a");
}

Deno.test("Tokenizer adds BOS and EOS once if add_bos_token and add_eos_token are true", () => {
  const both = { add_bos_token: true, add_eos_token: true };
  assert.deepEqual(encodeWhole({}), [2]);
  assert.deepEqual(encodeWhole({ add_bos_token: true }), [0, 2]);
  assert.deepEqual(encodeWhole({ add_eos_token: true }), [2, 1]);
  assert.deepEqual(encodeWhole(both), [0, 2, 1]);
  assert.deepEqual(encodeWhole(both, { type: "ByteLevel" }), [0, 2, 1]);
  assert.deepEqual(encodeWhole(both, template("<s>", "A", "</s>")), [0, 2, 1]);
  assert.deepEqual(encodeWhole(both, template("<s>", "A")), [0, 2, 1]);
  assert.deepEqual(encodeWhole({ add_bos_token: null }, template("<s>", "A")), [0, 2]);
});

Deno.test("Tokenizer with add_bos_token false removes the template's BOS only for classes that do so in Python", () => {
  const framed = (tokenizer_class: string) =>
    encodeWhole({ tokenizer_class, add_bos_token: false }, template("<s>", "A"));
  assert.deepEqual(framed("LlamaTokenizerFast"), [2]);
  assert.deepEqual(framed("PreTrainedTokenizerFast"), [0, 2]);
});

Deno.test("Tokenizer refuses an add_bos_token that is not a boolean", () => {
  assert.throws(() => encodeWhole({ add_bos_token: "yes" }), {
    name: "StartupError",
    message: 'tokenizer_config.json: add_bos_token: want true or false, saw "yes".',
  });
});
