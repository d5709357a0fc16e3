import assert from "node:assert/strict";
import { type CtcFiles, readCtcConfig } from "../../../../src/models/asr/ctc_load.ts";

const FILES = {
  config: {
    model_type: "wav2vec2",
    vocab_size: 6,
    pad_token_id: 0,
    conv_stride: [5, 2, 2, 2, 2, 2, 2],
  },
  preprocessorConfig: {},
  tokenizerConfig: { word_delimiter_token: "|" },
  tokenizer: {
    model: { vocab: { "<pad>": 0, "<unk>": 1, "|": 2, "A": 3, "'": 4, "é": 5 } },
    added_tokens: [{ id: 4, content: "'", special: false }],
  },
} as const;

function read(changes: Partial<CtcFiles> = {}) {
  return readCtcConfig({ ...FILES, ...changes });
}

Deno.test("readCtcConfig() maps letters to text, the delimiter to a space and special tokens to nothing", () => {
  const expected = { blank: 0, texts: ["", "", " ", "A", "'", "é"] };
  assert.deepEqual(read().vocabulary, expected);
  const tokenizer = { ...FILES.tokenizer, decoder: { type: "CTC", word_delimiter_token: "|" } };
  assert.deepEqual(read({ tokenizer, tokenizerConfig: {} }).vocabulary, expected);
});

Deno.test("readCtcConfig() reads word pieces, and a blank that is the last class", () => {
  const config = { ...FILES.config, model_type: "parakeet_ctc", vocab_size: 5, pad_token_id: 4 };
  const pieces = [["<unk>", 0], ["▁the", -1], ["s", -2], ["▁", -3]];
  const tokenizer = {
    model: { vocab: pieces },
    added_tokens: [{ id: 0, content: "<unk>", special: true }],
  };
  const { vocabulary } = read({ config, tokenizer, tokenizerConfig: {} });
  assert.deepEqual(vocabulary, { blank: 4, texts: ["", " the", "s", " ", ""] });
});

Deno.test("readCtcConfig() computes the samples per frame for each type of model", () => {
  const frame = (config: object, preprocessorConfig = {}) =>
    read({ config: { ...FILES.config, ...config }, preprocessorConfig }).samplesPerFrame;
  assert.equal(frame({}), 320);
  assert.equal(frame({ model_type: "wav2vec2-bert" }, { stride: 2 }), 320);
  assert.equal(
    frame({
      model_type: "wav2vec2-bert",
      add_adapter: true,
      num_adapter_layers: 1,
      adapter_stride: 2,
    }),
    640,
  );
  const encoder_config = { subsampling_factor: 8 };
  assert.equal(frame({ model_type: "parakeet_ctc", encoder_config }, { hop_length: 160 }), 1280);
});
