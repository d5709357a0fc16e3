import assert from "node:assert/strict";
import { EncoderTokenizer } from "../../../../src/models/embedding/encoder_tokenizer.ts";
import { openFolder } from "../../../../src/hub/model_folder.ts";
import { findModelFolder, unlessThere } from "../../../fixtures/engine/goldens.ts";

async function load(model: string): Promise<EncoderTokenizer> {
  return await EncoderTokenizer.load(await openFolder(findModelFolder(model)!));
}

Deno.test("EncoderTokenizer.frame() and unframe() put special tokens around a text and take them away", async () => {
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

Deno.test("EncoderTokenizer.framePair() tells two texts apart by special tokens and types", async () => {
  const tokenizer = await load("hearth-demo-rerank");
  assert.deepEqual(tokenizer.framePair([15, 16], [17]), {
    ids: [2, 15, 16, 3, 17, 3],
    typeOneFrom: 4,
  });
  assert.deepEqual(tokenizer.framePair([], []), { ids: [2, 3, 3], typeOneFrom: 2 });
  assert.equal(tokenizer.numSpecialOfPair, 3);
});

Deno.test({
  name: "EncoderTokenizer does without special tokens where the model has none" +
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
