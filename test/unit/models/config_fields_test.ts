/** Files with absurd values or wrong types stop the start with an error that names the file and the field. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { StartupError } from "../../../src/base/errors.ts";
import {
  checkPreprocessors,
  readContextLength,
  readVocabSize,
} from "../../../src/models/folder/config_fields.ts";
import { readTokenizer } from "../../../src/models/text/tokenizer_files.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";

type Json = Record<string, unknown>;

/** Runs `use` with a folder of these files. */
async function withFiles<T>(
  files: Readonly<Record<string, string>>,
  use: (folder: { path: string; files: Set<string>; config: Json }) => Promise<T>,
): Promise<T> {
  const path = await Deno.makeTempDir();
  try {
    for (const [name, text] of Object.entries(files)) {
      await Deno.writeTextFile(join(path, name), text);
    }
    return await use({ path, files: new Set(Object.keys(files)), config: {} });
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

async function refusal(
  files: Readonly<Record<string, string>>,
  use: Parameters<typeof withFiles>[1],
): Promise<string> {
  const error = await withFiles(files, use).then(() => undefined, (error) => error);
  assert.ok(error instanceof StartupError, `${JSON.stringify(files).slice(0, 200)}: ${error}`);
  return error.message.replace(/^.*\//, "");
}

const PREPROCESSOR = "preprocessor_config.json";
const EDGE = "want a whole number from 1 to 8192, saw";

Deno.test("checkPreprocessors() refuses absurd values, and names the file and the field", async () => {
  const cases: readonly (readonly [Json, string])[] = [
    [{ size: 1e9 }, `size: ${EDGE} 1000000000.`],
    [{ size: 0 }, `size: ${EDGE} 0.`],
    [{ size: -5 }, `size: ${EDGE} -5.`],
    [{ size: 22.5 }, `size: ${EDGE} 22.5.`],
    [{ size: "big" }, 'size: want a length, or an object of lengths, saw "big".'],
    [{ size: { height: 224, width: 1e9 } }, `size.width: ${EDGE} 1000000000.`],
    [{ size: { shortest_edge: 0 } }, `size.shortest_edge: ${EDGE} 0.`],
    [{ size: [960, 1e7] }, `size[1]: ${EDGE} 10000000.`],
    [{ crop_size: { height: "x", width: 1 } }, `crop_size.height: ${EDGE} "x".`],
    [{ max_image_size: { longest_edge: 1e9 } }, `max_image_size.longest_edge: ${EDGE} 1000000000.`],
    [{ num_crops: 1e9 }, "num_crops: want a whole number from 1 to 256, saw 1000000000."],
    [{ frame_length: 0 }, "frame_length: want a whole number from 1 to 65536, saw 0."],
    [
      { fft_window_size: 1e9 },
      "fft_window_size: want a whole number from 1 to 65536, saw 1000000000.",
    ],
    [{ pad_size: 1e6 }, `pad_size: ${EDGE} 1000000.`],
    [
      { min_pixels: 0, max_pixels: 10 },
      "min_pixels: want a whole number from 1 to 268435456, saw 0.",
    ],
    [
      { patch_size: 14, merge_size: 0 },
      "merge_size: want a whole number from 1 to 64, saw 0.",
    ],
    [
      { image_std: [0.5, 0, 0.5] },
      "image_std[1]: want a number from -1000000 to 1000000 other than 0, saw 0.",
    ],
    [{ image_mean: ["a"] }, 'image_mean[0]: want a number from -1000000 to 1000000, saw "a".'],
    [{ do_resize: "yes" }, 'do_resize: want true or false, saw "yes".'],
    [{ resample: 9 }, "resample: want a whole number from 0 to 5, saw 9."],
    [{ hop_length: 0 }, "hop_length: want a whole number from 1 to 65536, saw 0."],
    [{ sampling_rate: 1 }, "sampling_rate: want a whole number from 1000 to 768000, saw 1."],
    [{ feature_size: 1e9 }, "feature_size: want a whole number from 1 to 4096, saw 1000000000."],
  ];
  for (const [json, message] of cases) {
    const files = { [PREPROCESSOR]: JSON.stringify(json) };
    assert.equal(await refusal(files, checkPreprocessors), `${PREPROCESSOR}: ${message}`);
  }
  const inner = { "processor_config.json": JSON.stringify({ image_processor: { size: 1e9 } }) };
  assert.equal(
    await refusal(inner, checkPreprocessors),
    `processor_config.json: image_processor.size: ${EDGE} 1000000000.`,
  );
  // Python writes infinity this way.
  const infinite = await refusal({ [PREPROCESSOR]: '{"size": Infinity}' }, checkPreprocessors);
  assert.equal(infinite, `${PREPROCESSOR}: size: ${EDGE} Infinity.`);
});

Deno.test("checkPreprocessors() accepts the values of many families", async () => {
  const given: readonly Json[] = [
    {},
    { size: 224, crop_size: 224, image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5] },
    { size: { shortest_edge: 256 }, crop_size: { height: 224, width: 224 }, resample: 3 },
    { size: { longest_edge: 1536 }, max_image_size: { longest_edge: 512 }, pad_size: null },
    { size: [960, 1280], do_align_long_axis: false, rescale_factor: 1 / 255 },
    // Qwen2-VL and Qwen3-VL: sizes in numbers of pixels.
    { min_pixels: 3136, max_pixels: 12_845_056, patch_size: 14, temporal_patch_size: 2 },
    { size: { shortest_edge: 65_536, longest_edge: 16_777_216 }, patch_size: 16, merge_size: 2 },
    // Pixtral
    { size: { longest_edge: 1540 }, patch_size: { height: 14, width: 14 } },
    // LFM2-VL
    { tile_size: 512, max_tiles: 10, max_num_patches: 1024, downsample_factor: 2 },
    // Whisper, wav2vec2, SpeechT5
    { chunk_length: 30, feature_size: 80, hop_length: 160, n_fft: 400, n_samples: 480_000 },
    { feature_size: 1, sampling_rate: 16_000, padding_value: 0, do_normalize: true },
    { feature_size: 1, num_mel_bins: 80, hop_length: 16, win_length: 64, fmax: 7600 },
  ];
  for (const json of given) {
    await withFiles({ [PREPROCESSOR]: JSON.stringify(json) }, checkPreprocessors);
  }
});

/** The built-in model's tokenizer with one change. */
function tokenizer(change: (json: Json, model: Json) => void): string {
  const path = join(findModelFolder("hearth-demo-embed")!, "tokenizer.json");
  const json = JSON.parse(Deno.readTextFileSync(path));
  change(json, json.model);
  return JSON.stringify(json);
}

Deno.test("readTokenizer() names the file and the invalid field", async () => {
  const cases: readonly (readonly [string, RegExp])[] = [
    ["[]", /^tokenizer.json does not hold a JSON object\.$/],
    ["{", /^tokenizer.json cannot be read: /],
    ["{}", /^tokenizer.json: model: want an object, saw nothing\.$/],
    [
      tokenizer((json) => json["model"] = "bpe"),
      /^tokenizer.json: model: want an object, saw "bpe"\.$/,
    ],
    [
      tokenizer((_, model) => delete model["vocab"]),
      /^tokenizer.json: model\.vocab: want an object, or an array, saw nothing\.$/,
    ],
    [
      tokenizer((_, model) => (model["vocab"] as Json)["egg"] = 1e9),
      /^tokenizer.json: model\.vocab\["egg"\]: want a whole number from 0 to 16777216, saw 1000000000\.$/,
    ],
    [
      tokenizer((_, model) => (model["vocab"] as Json)["egg"] = null),
      /^tokenizer.json: model\.vocab\["egg"\]: want a whole number .*, saw null\.$/,
    ],
    [
      tokenizer((json) => json["added_tokens"] = {}),
      /^tokenizer.json: added_tokens: want an array, saw \{\}\.$/,
    ],
    [
      tokenizer((json) => (json["added_tokens"] as Json[])[1]!["id"] = -1),
      /^tokenizer.json: added_tokens\[1\]\.id: want a whole number .*, saw -1\.$/,
    ],
    [
      tokenizer((json) => delete (json["added_tokens"] as Json[])[0]!["content"]),
      /^tokenizer.json: added_tokens\[0\]\.content: want a string, saw nothing\.$/,
    ],
    [
      tokenizer((json) => json["normalizer"] = { kind: "Lowercase" }),
      /^tokenizer.json: normalizer\.type: want a string, saw nothing\.$/,
    ],
    [
      tokenizer((json) => json["decoder"] = 5),
      /^tokenizer.json: decoder: want an object, saw 5\.$/,
    ],
    [
      tokenizer((json) => json["pre_tokenizer"] = { type: "Quantum" }),
      /^tokenizer.json.*Quantum/,
    ],
  ];
  for (const [text, message] of cases) {
    assert.match(await refusal({ "tokenizer.json": text }, readTokenizer), message);
  }
  const whole = tokenizer(() => {});
  const settings: readonly (readonly [Json, RegExp])[] = [
    [
      { add_bos_token: "yes" },
      /^tokenizer_config.json: add_bos_token: want true or false, saw "yes"/,
    ],
    [{ model_max_length: "long" }, /^tokenizer_config.json: model_max_length: want a number/],
    [{ pad_token: 5 }, /^tokenizer_config.json: pad_token: want a string, or an object with one/],
    [{ chat_template: 5 }, /^tokenizer_config.json: chat_template: want a string, or an array/],
    [
      { chat_template: [{ name: "default", template: 5 }] },
      /^tokenizer_config.json: chat_template\[0\]\.template: want a string, saw 5/,
    ],
  ];
  for (const [json, message] of settings) {
    const files = { "tokenizer.json": whole, "tokenizer_config.json": JSON.stringify(json) };
    assert.match(await refusal(files, readTokenizer), message);
  }
  const plain = { model_max_length: 1e30, add_bos_token: null, bos_token: { content: "[CLS]" } };
  await withFiles(
    { "tokenizer.json": whole, "tokenizer_config.json": JSON.stringify(plain) },
    readTokenizer,
  );
});

const REAL = fileURLToPath(new URL("../../../../shared/tokenizers", import.meta.url));

Deno.test({
  name: "readTokenizer() accepts published tokenizers" +
    (existsSync(REAL) ? "" : " (skipped: no ../shared/tokenizers)"),
  ignore: !existsSync(REAL),
  fn: async () => {
    for (const { name } of Deno.readDirSync(REAL)) {
      const path = join(REAL, name);
      const files = new Set([...Deno.readDirSync(path)].map((entry) => entry.name));
      if (files.has("tokenizer.json")) await readTokenizer({ path, files, config: {} });
    }
  },
});

function folder(config: Record<string, unknown>) {
  return { path: "/models/x", config, files: new Set<string>() };
}

Deno.test("readContextLength() reads the length from the config, or from its text_config", () => {
  assert.equal(readContextLength(folder({ max_position_embeddings: 512 })), 512);
  assert.equal(readContextLength(folder({ model_type: "gpt2", n_positions: 64 })), 64);
  assert.equal(readContextLength(folder({ text_config: { max_position_embeddings: 96 } })), 96);
});

Deno.test("readContextLength() knows the defaults that transformers does not write into a config", () => {
  assert.equal(readContextLength(folder({ model_type: "qwen2" })), 32_768);
  assert.equal(readContextLength(folder({ model_type: "bloom" })), 2048);
  assert.equal(readContextLength(folder({ model_type: "mpt", max_seq_len: 96 })), 96);
  const nested = { model_type: "gemma3", text_config: { model_type: "gemma3_text" } };
  assert.equal(readContextLength(folder(nested)), 131_072);
});

Deno.test("readContextLength() and readVocabSize() refuse a config without a valid size", () => {
  assert.throws(() => readContextLength(folder({ model_type: "new" })), {
    name: "StartupError",
    message: /\/models\/x\/config\.json gives no max_position_embeddings or n_positions/,
  });
  assert.throws(() => readVocabSize(folder({ vocab_size: "many" })), { message: /vocab_size/ });
});
