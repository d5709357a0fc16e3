import assert from "node:assert/strict";
import { join } from "node:path";
import { EncoderTokenizer } from "../../../../src/models/embedding/encoder_tokenizer.ts";
import { openFolder } from "../../../../src/hub/model_folder.ts";
import { findModelFolder, unlessThere } from "../../../fixtures/engine/goldens.ts";
import { tokenizerJson } from "../../../fixtures/text/tokenizer_json.ts";

async function load(model: string): Promise<EncoderTokenizer> {
  return await EncoderTokenizer.load(await openFolder(findModelFolder(model)!));
}

Deno.test("EncoderTokenizer.frame() and unframe() add special tokens around a text and remove them", async () => {
  const tokenizer = await load("hearth-demo-embed");
  const ids = tokenizer.encode("How do I boil an egg?");
  assert.deepEqual(tokenizer.frame(ids), { ids: [2, ...ids, 3] });
  assert.deepEqual(tokenizer.unframe([2, ...ids, 3]), ids);
  assert.deepEqual(tokenizer.unframe(ids), ids);
  assert.deepEqual(tokenizer.unframe([2, ...ids]), [2, ...ids]);
  assert.deepEqual(tokenizer.unframe([2, 3]), []);
  assert.deepEqual(tokenizer.unframe([3]), [3]);
  assert.equal(tokenizer.numSpecial, 2);
  assert.equal(tokenizer.vocabSize, 2800);
  assert.equal(tokenizer.padTokenId, 0);
});

Deno.test("EncoderTokenizer.framePair() separates two texts by special tokens and token types", async () => {
  const tokenizer = await load("hearth-demo-rerank");
  assert.deepEqual(tokenizer.framePair([15, 16], [17]), {
    ids: [2, 15, 16, 3, 17, 3],
    typeOneFrom: 4,
  });
  assert.deepEqual(tokenizer.framePair([], []), { ids: [2, 3, 3], typeOneFrom: 2 });
  assert.equal(tokenizer.numSpecialInPair, 3);
});

Deno.test({
  name: "EncoderTokenizer adds no special tokens if the model has none" +
    unlessThere(
      findModelFolder("embed-m2v") !== undefined,
      "models/embed-m2v",
      "a published Unigram tokenizer",
    ),
  ignore: findModelFolder("embed-m2v") === undefined,
  fn: async () => {
    const tokenizer = await load("embed-m2v");
    assert.equal(tokenizer.encodesPairs, false);
    assert.equal(tokenizer.numSpecial, 0);
    assert.deepEqual(tokenizer.frame([5, 6]), { ids: [5, 6] });
    assert.deepEqual(tokenizer.unframe([5, 6]), [5, 6]);
  },
});

Deno.test("EncoderTokenizer lower-cases texts if sentence-transformers does", async () => {
  const path = await Deno.makeTempDir({ prefix: "hearth-lower-" });
  try {
    const encode = async (settings: Readonly<Record<string, unknown>>) => {
      const files = {
        "config.json": {},
        "sentence_bert_config.json": settings,
        "tokenizer.json": tokenizerJson(["[UNK]"], {
          normalizer: { type: "Prepend", prepend: "_" },
          model: {
            type: "WordPiece",
            vocab: { "[UNK]": 0, "_İx": 1, "_i̇x": 2, "_Ox": 3, "_ox": 4 },
            unk_token: "[UNK]",
            continuing_subword_prefix: "##",
            max_input_chars_per_word: 100,
          },
        }),
      };
      for (const [name, json] of Object.entries(files)) {
        await Deno.writeTextFile(join(path, name), JSON.stringify(json));
      }
      const tokenizer = await EncoderTokenizer.load(await openFolder(path));
      return ["İx", "Ox", "[UNK]"].map((text) => tokenizer.encode(text));
    };
    assert.deepEqual(await encode({ do_lower_case: false }), [[1], [3], [0]]);
    // A special token keeps its case.
    assert.deepEqual(await encode({ do_lower_case: true }), [[2], [4], [0]]);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
});
