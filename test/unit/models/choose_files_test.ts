import assert from "node:assert/strict";
import { StartupError } from "../../../src/base/errors.ts";
import type { ModelFolder } from "../../../src/hub/model_folder.ts";
import { chooseFiles, type ModelChoice } from "../../../src/models/load/choose_files.ts";

function folder(config: Record<string, unknown>, ...files: string[]): ModelFolder {
  return { path: "ada/engine", config, files: new Set(["config.json", ...files]) };
}

function choose(of: ModelFolder, options: Partial<ModelChoice> = {}) {
  const { files, ...rest } = chooseFiles(of, { device: "cpu", ...options });
  return { files: [...files].sort(), ...rest };
}

const TEXT = folder(
  { architectures: ["Qwen3ForCausalLM"], model_type: "qwen3" },
  ".gitattributes",
  "README.md",
  "LICENSE",
  "model.safetensors",
  "merges.txt",
  "vocab.json",
  "quantize_config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
  "onnx/model.onnx",
  "onnx/model.onnx_data",
  "onnx/model.onnx_data_1",
  "onnx/model_fp16.onnx",
  "onnx/model_fp16.onnx_data",
  "onnx/model_q4.onnx",
  "onnx/model_q4.onnx_data",
  "onnx/model_q4f16.onnx",
);
const SETTINGS = [
  "chat_template.jinja",
  "config.json",
  "generation_config.json",
];
const TOKENIZER = ["tokenizer.json", "tokenizer_config.json"];

Deno.test("chooseFiles() chooses settings, and one graph with its external data", () => {
  assert.deepEqual(choose(TEXT), {
    kind: "text",
    dtype: "q4",
    files: [...SETTINGS, "onnx/model_q4.onnx", "onnx/model_q4.onnx_data", ...TOKENIZER],
    graphs: ["onnx/model_q4.onnx"],
    missed: [],
  });
  const full = choose(TEXT, { dtype: "fp32" }).files.filter((file) => file.startsWith("onnx/"));
  assert.deepEqual(full, ["onnx/model.onnx", "onnx/model.onnx_data", "onnx/model.onnx_data_1"]);
});

Deno.test("chooseFiles() chooses the best dtype for the device", () => {
  assert.equal(choose(TEXT, { device: "gpuWithF16" }).dtype, "q4f16");
  assert.equal(choose(TEXT, { device: "gpu" }).dtype, "q4");
  assert.deepEqual(choose(TEXT, { device: "gpuWithF16" }).missed, []);
});

Deno.test("chooseFiles() takes weights in half precision on a GPU without f16 only if there are no others", () => {
  const speech = (...graphs: string[]) =>
    choose(
      folder(
        { model_type: "style_text_to_speech_2" },
        ...graphs.map((name) => `onnx/${name}.onnx`),
      ),
      { device: "gpu", kind: "tts" },
    ).graphs;
  assert.deepEqual(speech("model_fp16", "model_quantized"), ["onnx/model_quantized.onnx"]);
  assert.deepEqual(speech("model_q4f16", "model_bnb4"), ["onnx/model_bnb4.onnx"]);
  assert.deepEqual(speech("model_fp16"), ["onnx/model_fp16.onnx"]);
});

Deno.test("chooseFiles() chooses weights of 1 or 2 bits if there are no others", () => {
  const only = (...files: string[]) => folder(TEXT.config, "tokenizer.json", ...files);
  for (const dtype of ["q1", "q1f16", "q2", "q2f16"] as const) {
    const graph = `onnx/model_${dtype}.onnx`;
    for (const device of ["cpu", "gpuWithF16"] as const) {
      const chosen = choose(only(graph, `${graph}_data`), { device });
      assert.equal(chosen.dtype, dtype);
      assert.deepEqual(chosen.graphs, [graph]);
    }
  }
  assert.equal(choose(only("onnx/model_q1.onnx", "onnx/model_q4.onnx")).dtype, "q4");
});

Deno.test("chooseFiles() lists the graphs last, so that a folder that has them is complete", () => {
  const { files } = chooseFiles(TEXT, { device: "cpu" });
  assert.equal(files.at(-1), "onnx/model_q4.onnx");
});

Deno.test("chooseFiles() chooses a speech model's encoder and merged decoder, not the two decoders that were merged", () => {
  const whisper = folder(
    { model_type: "whisper", architectures: ["WhisperForConditionalGeneration"] },
    "preprocessor_config.json",
    "onnx/encoder_model.onnx",
    "onnx/encoder_model_fp16.onnx",
    ...["decoder_model", "decoder_with_past_model", "decoder_model_merged"].flatMap((name) => [
      `onnx/${name}.onnx`,
      `onnx/${name}_quantized.onnx`,
    ]),
  );
  assert.deepEqual(choose(whisper).graphs, [
    "onnx/decoder_model_merged_quantized.onnx",
    "onnx/encoder_model.onnx",
  ]);
  assert.equal(choose(whisper).dtype, "q8");
  const wished = choose(whisper, { dtype: "q8" });
  assert.deepEqual(wished.graphs, choose(whisper).graphs);
});

Deno.test("chooseFiles() chooses each part of a vision model in the best dtype that the part has", () => {
  const vision = folder(
    { architectures: ["SmolVLMForConditionalGeneration"], model_type: "smolvlm" },
    "processor_config.json",
    "onnx/decoder_model_merged_q4f16.onnx",
    "onnx/embed_tokens_fp16.onnx",
    "onnx/vision_encoder_q4f16.onnx",
    "onnx/vision_encoder.onnx",
  );
  assert.deepEqual(choose(vision, { device: "gpuWithF16" }).graphs, [
    "onnx/decoder_model_merged_q4f16.onnx",
    "onnx/embed_tokens_fp16.onnx",
    "onnx/vision_encoder_q4f16.onnx",
  ]);
});

Deno.test("chooseFiles() includes a speech synthesiser's voices, and an embedder's pooling", () => {
  const kokoro = folder(
    { model_type: "style_text_to_speech_2" },
    "voices/af.bin",
    "onnx/model.onnx",
  );
  assert.ok(choose(kokoro).files.includes("voices/af.bin"));
  const embedder = folder(
    { architectures: ["BertModel"] },
    "modules.json",
    "1_Pooling/config.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "onnx/model.onnx",
    "onnx/model_quantized.onnx",
  );
  const { files, dtype } = choose(embedder);
  assert.ok(files.includes("1_Pooling/config.json") && files.includes("modules.json"));
  // `PREFERRED` gives the reason: an embedder's texts share batches.
  assert.equal(dtype, "fp32");
});

Deno.test("chooseFiles() includes Chatterbox's voice, and chooses quantized weights only for its language model", () => {
  const graphs = ["conditional_decoder", "embed_tokens", "language_model", "speech_encoder"];
  const chatterbox = folder(
    { model_type: "chatterbox" },
    "default_voice.wav",
    ...graphs.map((name) => `onnx/${name}.onnx`),
    ...graphs.map((name) => `onnx/${name}_q4.onnx`),
    "onnx/language_model_q4.onnx_data",
    "onnx/language_model_q4f16.onnx",
  );
  const chosen = choose(chatterbox);
  assert.equal(chosen.dtype, "q4");
  assert.deepEqual(chosen.graphs, [
    "onnx/language_model_q4.onnx",
    "onnx/conditional_decoder.onnx",
    "onnx/embed_tokens.onnx",
    "onnx/speech_encoder.onnx",
  ]);
  assert.ok(chosen.files.includes("default_voice.wav"));
  assert.ok(chosen.files.includes("onnx/language_model_q4.onnx_data"));
  assert.equal(choose(chatterbox, { device: "gpuWithF16" }).dtype, "q4f16");
  assert.equal(choose(chatterbox, { dtype: "fp32" }).graphs[0], "onnx/language_model.onnx");
});

Deno.test("chooseFiles() refuses a folder without graphs, and a dtype that the folder lacks", () => {
  assert.throws(() => choose(folder({ architectures: ["XForCausalLM"] })), StartupError);
  assert.throws(() => choose(TEXT, { dtype: "int8" }), /no graph of dtype int8: it has fp32, fp16/);
});

Deno.test("chooseFiles() includes a vision model's audio encoder only for families that accept audio", () => {
  const chooseOf = (model_type: string) => {
    const files = ["audio_encoder", "decoder_model_merged", "embed_tokens", "vision_encoder"]
      .map((graph) => `onnx/${graph}_q4.onnx`);
    const config = { architectures: ["Gemma4ForConditionalGeneration"], model_type };
    return choose(folder(config, "processor_config.json", ...files)).graphs;
  };
  const graphs = [
    "onnx/decoder_model_merged_q4.onnx",
    "onnx/embed_tokens_q4.onnx",
    "onnx/vision_encoder_q4.onnx",
  ];
  assert.deepEqual(chooseOf("gemma3"), graphs);
  assert.deepEqual(chooseOf("gemma4"), [...graphs, "onnx/audio_encoder_q4.onnx"]);
});

Deno.test("chooseFiles() chooses the single graph of a CTC model", () => {
  const ctc = folder(
    { model_type: "wav2vec2", architectures: ["Wav2Vec2ForCTC"] },
    ...["vocab.json", "preprocessor_config.json", "onnx/model.onnx", "onnx/model_fp16.onnx"],
  );
  assert.deepEqual(choose(ctc), {
    kind: "asr",
    dtype: "fp32",
    files: ["config.json", "onnx/model.onnx", "preprocessor_config.json"],
    graphs: ["onnx/model.onnx"],
    missed: ["onnx/model_q4.onnx", "onnx/model_q4f16.onnx", "onnx/model_quantized.onnx"],
  });
});

Deno.test("chooseFiles() chooses SpeechT5 in full precision by default, with its voices and merged decoder", () => {
  const speecht5 = folder(
    { model_type: "speecht5" },
    "speaker_embeddings.bin",
    "spm_char.model",
    "tokenizer.json",
    ...["encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged"]
      .flatMap((name) => [`onnx/${name}.onnx`, `onnx/${name}_quantized.onnx`]),
    "onnx/decoder_postnet_and_vocoder.onnx",
  );
  const files = [
    "config.json",
    "onnx/decoder_model_merged.onnx",
    "onnx/decoder_postnet_and_vocoder.onnx",
    "onnx/encoder_model.onnx",
    "speaker_embeddings.bin",
    "tokenizer.json",
  ];
  for (const device of ["cpu", "gpuWithF16"] as const) {
    const chosen = choose(speecht5, { device });
    assert.deepEqual(chosen.files, files);
    assert.equal(chosen.dtype, "fp32");
    assert.deepEqual(chosen.missed, []);
  }
  const small = choose(speecht5, { dtype: "q8" });
  assert.equal(small.dtype, "q8");
  assert.ok(small.files.includes("onnx/encoder_model_quantized.onnx"));
});
