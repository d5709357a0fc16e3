/** Identification of a folder before anything is loaded. */
import assert from "node:assert/strict";
import { StartupError } from "../../src/base/errors.ts";
import { type ModelFolder, openFolder } from "../../src/hub/model_folder.ts";
import { identifyFamily } from "../../src/models/load/identify_family.ts";
import { chooseGraphs } from "../../src/models/folder/graph_choice.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";

const KINDS = {
  "hearth-demo-chat": "text",
  "stories260k-llama": "text",
  "chat-gptneo-3m": "text",
  "hearth-demo-asr": "asr",
  "hearth-demo-embed": "embedding",
  "embed-m2v": "embedding",
  "hearth-demo-rerank": "rerank",
  "hearth-demo-matting": "matting",
  "hearth-demo-tts": "tts",
  "hearth-demo-vision": "vision",
  "hearth-demo-ocr": "ocr",
  "selfie-segmentation": "matting",
  "ppocr-v2-mobile": "ocr",
} as const;

for (const [model, kind] of Object.entries(KINDS)) {
  const folder = findModelFolder(model);
  Deno.test({
    name: `identifyFamily() recognizes ${model} as ${kind}${
      unlessThere(folder !== undefined, `models/${model}`, "a published folder")
    }`,
    ignore: folder === undefined,
    fn: async () => assert.equal(identifyFamily(await openFolder(folder!)).kind, kind),
  });
}

Deno.test("identifyFamily() recognizes decoders that embed or rerank by their names", () => {
  const config = { model_type: "qwen3", architectures: ["Qwen3ForCausalLM"] };
  const kind = (path: string) => identifyFamily({ path, files: new Set(), config }).kind;
  assert.equal(kind("onnx-community/Qwen3-Embedding-0.6B-ONNX"), "embedding");
  assert.equal(kind("/c/models--onnx-community--Qwen3-Reranker-0.6B-ONNX/snapshots/5a"), "rerank");
  assert.equal(kind("/home/me/embeddings/Qwen3-0.6B-ONNX"), "text");
});

Deno.test("identifyFamily() recognizes a background remover by its model_type or its architecture", () => {
  const kind = (config: Record<string, unknown>) => identifyFamily(makeFolder(config)).kind;
  for (const type of ["isnet", "ormbg", "modnet", "birefnet", "ben", "ben2"]) {
    assert.equal(kind({ model_type: type }), "matting", type);
  }
  for (const name of ["BriaRMBG", "BiRefNet", "BEN_Base", "VitMatteForImageMatting"]) {
    assert.equal(kind({ model_type: "custom", architectures: [name] }), "matting", name);
  }
});

Deno.test("identifyFamily() recognizes a speech recogniser with a CTC head by its architecture", () => {
  for (const [type, name] of [["data2vec-audio", "Data2VecAudioForCTC"], ["sew", "SEWForCTC"]]) {
    const { kind, loader } = identifyFamily(
      makeFolder({ model_type: type, architectures: [name] }),
    );
    assert.deepEqual({ kind, loader }, { kind: "asr", loader: "ctc" }, name);
  }
});

function makeFolder(config: Record<string, unknown>, files: readonly string[] = []): ModelFolder {
  return { path: "/models/x", files: new Set(files), config };
}

Deno.test("identifyFamily() names model_type and architecture if it finds no family, and asks for the kind", () => {
  assert.throws(
    () =>
      identifyFamily(makeFolder({ model_type: "quux", architectures: ["Quux"] }, ["config.json"])),
    (error: Error) =>
      error instanceof StartupError && error.setting === "kind" &&
      /quux.*Quux.*Set its kind/s.test(error.message),
  );
});

Deno.test("chooseGraphs() chooses a graph that Optimum optimized, and explains why separate graphs for prompts and later tokens are not served", () => {
  const choose = (...files: string[]) =>
    chooseGraphs(makeFolder({}, files), [{ name: "model" }], { device: "cpu" }).main.path;
  assert.equal(choose("model_optimized.onnx"), "model_optimized.onnx");
  assert.equal(choose("model_optimized.onnx", "model.onnx"), "model.onnx");
  assert.throws(() => choose("onnx/decoder_model.onnx", "onnx/decoder_with_past_model.onnx"), {
    message: /one graph for prompts and another for later tokens .* Export the model again/,
  });
});

Deno.test("chooseGraphs() chooses the best available dtype for the device", () => {
  const folder = makeFolder({}, ["onnx/model.onnx", "onnx/model_fp16.onnx", "onnx/model_q4.onnx"]);
  const choose = (device: "gpuWithF16" | "gpu" | "cpu") =>
    chooseGraphs(folder, [{ name: "model" }], { device }).main.dtype;
  assert.deepEqual([choose("gpuWithF16"), choose("gpu"), choose("cpu")], ["fp16", "q4", "q4"]);
});

Deno.test("chooseGraphs() refuses a dtype the folder lacks and names those it has", () => {
  const folder = makeFolder({}, ["onnx/model.onnx", "onnx/model_q4.onnx"]);
  assert.throws(
    () => chooseGraphs(folder, [{ name: "model" }], { device: "cpu", dtype: "fp16" }),
    /fp16: it has fp32, q4/,
  );
});

/** The kind of a folder with this configuration and these files of sentence-transformers. */
function readKind(
  config: Record<string, unknown>,
  { files = [], identity }: {
    readonly files?: readonly string[];
    readonly identity?: Record<string, unknown>;
  } = {},
): string {
  const all = ["config.json", "tokenizer.json", ...files, ...Object.keys(identity ?? {})];
  return identifyFamily({ path: "/models/x", files: new Set(all), config, identity }).kind;
}

const ST = "sentence_transformers";

Deno.test("identifyFamily() recognizes models that sentence-transformers saved", () => {
  const bert = (head: string) => ({ model_type: "bert", architectures: [`Bert${head}`] });
  const transformer = { path: "", type: `${ST}.base.modules.transformer.Transformer` };
  const pooling = {
    path: "1_Pooling",
    type: `${ST}.sentence_transformer.modules.pooling.Pooling`,
  };
  const logitScore = {
    path: "1_LogitScore",
    type: `${ST}.cross_encoder.modules.logit_score.LogitScore`,
  };
  const saved = (modules: readonly unknown[], type?: string) => ({
    identity: {
      "modules.json": modules,
      ...type && { "config_sentence_transformers.json": { model_type: type } },
    },
  });
  assert.equal(readKind(bert("Model"), saved([transformer, pooling])), "embedding");
  assert.equal(
    readKind(bert("ForMaskedLM"), saved([transformer, pooling], "SentenceTransformer")),
    "embedding",
  );
  const labels = { id2label: { 0: "LABEL_0" } };
  const classifier = { ...bert("ForSequenceClassification"), ...labels };
  assert.equal(readKind(classifier, saved([transformer])), "rerank");
  assert.equal(readKind(classifier, saved([transformer], "CrossEncoder")), "rerank");
  const qwen = { model_type: "qwen3", architectures: ["Qwen3ForCausalLM"] };
  assert.equal(readKind(qwen, saved([transformer, logitScore])), "rerank");
  assert.equal(readKind(qwen, saved([transformer, pooling])), "embedding");
  const t5 = { model_type: "t5", architectures: ["T5EncoderModel"], is_encoder_decoder: true };
  assert.equal(readKind(t5, saved([transformer, pooling])), "embedding");
  const splade = { path: "1_SpladePooling", type: `${ST}.sparse_encoder.modules.SpladePooling` };
  assert.throws(
    () => readKind(bert("ForMaskedLM"), saved([transformer, splade])),
    /is a sparse encoder/,
  );
  assert.throws(
    () => readKind(bert("Model"), saved([transformer], "MultiVectorEncoder")),
    /is a late-interaction model/,
  );
  const pyLate = saved([transformer, { path: "1_Dense", type: "pylate.models.Dense.Dense" }]);
  const settings = { similarity_fn_name: "MaxSim" };
  const identity = { ...pyLate.identity, "config_sentence_transformers.json": settings };
  assert.throws(() => readKind(bert("Model"), { identity }), /is a late-interaction model/);
});

/** The relevant parts of configurations on the hub, and the message that is expected for each. */
const UNSERVED: readonly (readonly [
  name: string,
  config: Record<string, unknown>,
  message: RegExp,
  files?: readonly string[],
])[] = [
  ["Voxtral-Mini-4B-Realtime", {
    architectures: ["VoxtralRealtimeForConditionalGeneration"],
    model_type: "voxtral_realtime",
    audio_config: { model_type: "voxtral_realtime_encoder" },
  }, /is a streaming speech recogniser/],
  [
    "ultravox-v0_5-llama-3_2-1b",
    { architectures: ["UltravoxModel"], model_type: "ultravox" },
    /is a language model with audio input/,
  ],
  ["snac_24khz", { model_type: "snac", sampling_rate: 24000 }, /is an audio codec/],
  [
    "snac_24khz",
    { sampling_rate: 24000, codebook_size: 4096, vq_strides: [4, 2, 1] },
    /is an audio codec/,
    ["onnx/encoder_model.onnx", "onnx/decoder_model.onnx"],
  ],
  ["moonshine-streaming-tiny", {
    architectures: ["MoonshineStreamingForConditionalGeneration"],
    is_encoder_decoder: true,
    model_type: "moonshine_streaming",
  }, /is a streaming speech recogniser/],
  ["parakeet-rnnt-0.6b", { model_type: "nemo-conformer-rnnt" }, /is a speech recogniser of a type/],
  ["canary-180m-flash", { model_type: "nemo-conformer-aed" }, /is a speech recogniser of a type/],
  ["gliner_small-v2.1", { model_type: "gliner" }, /finds names in a text/],
  ["gelan-c_all", { model_type: "yolov9" }, /finds objects in images/],
  [
    "detr-resnet-50-panoptic",
    { architectures: ["DetrForSegmentation"], model_type: "detr" },
    /segments images/,
  ],
  ["roberta-toxicity", {
    architectures: ["RobertaForSequenceClassification"],
    id2label: { 0: "toxic" },
    model_type: "roberta",
  }, /is a classifier of one label \(toxic\)/],
  ["mimi", { architectures: ["MimiModel"], model_type: "mimi" }, /is an audio codec/],
  ["opus-mt-en-de", {
    architectures: ["MarianMTModel"],
    is_encoder_decoder: true,
    model_type: "marian",
  }, /is a translation model/],
  ["nllb-200-distilled-600M", {
    architectures: ["M2M100ForConditionalGeneration"],
    is_encoder_decoder: true,
    model_type: "m2m_100",
  }, /is a translation model/],
  [
    "slimsam-77-uniform",
    { architectures: ["SamModel"], model_type: "sam" },
    /is a segmentation model/,
  ],
  [
    "sam2.1-hiera-tiny",
    { architectures: ["Sam2Model"], model_type: "sam2_video" },
    /is a segmentation model/,
  ],
  ["flan-t5-small", {
    architectures: ["T5ForConditionalGeneration"],
    is_encoder_decoder: true,
    model_type: "t5",
  }, /is an encoder-decoder for texts/],
  ["distilbart-cnn-6-6", {
    architectures: ["BartForConditionalGeneration"],
    is_encoder_decoder: true,
    model_type: "bart",
  }, /is an encoder-decoder for texts/],
  ["bart-base", {
    architectures: ["BartModel"],
    is_encoder_decoder: true,
    model_type: "bart",
  }, /is an encoder-decoder for texts/],
  ["distilbert-base-uncased-finetuned-sst-2-english", {
    architectures: ["DistilBertForSequenceClassification"],
    id2label: { 0: "NEGATIVE", 1: "POSITIVE" },
    model_type: "distilbert",
  }, /is a classifier of 2 labels \(NEGATIVE, POSITIVE\)/],
  [
    "bert-base-uncased-SST-2",
    { architectures: ["BertForSequenceClassification"], model_type: "bert" },
    /is a classifier of 2 labels \(LABEL_0, LABEL_1\)/,
  ],
  ["nli-deberta-v3-xsmall", {
    architectures: ["DebertaV2ForSequenceClassification"],
    id2label: { 0: "contradiction", 1: "entailment", 2: "neutral" },
    model_type: "deberta-v2",
  }, /is a classifier of 3 labels/],
  ["twitter-emotions", {
    architectures: ["RobertaForSequenceClassification"],
    id2label: Object.fromEntries("abcdefg".split("").entries()),
    model_type: "roberta",
  }, /is a classifier of 7 labels \(a, b, c, d, e, …\)/],
  [
    "bert-base-NER",
    { architectures: ["BertForTokenClassification"], model_type: "bert" },
    /labels the tokens of a text/,
  ],
  [
    "distilbert-base-cased-distilled-squad",
    { architectures: ["DistilBertForQuestionAnswering"], model_type: "distilbert" },
    /marks the answer/,
  ],
  [
    "clip-vit-base-patch16",
    { architectures: ["CLIPModel"], model_type: "clip" },
    /compares images with texts/,
  ],
  ["clap-htsat-unfused", { architectures: ["ClapModel"], model_type: "clap" }, /sounds with texts/],
  ["dinov2-small", { architectures: ["Dinov2Model"], model_type: "dinov2" }, /image encoder/],
  [
    "musicgen-small",
    { architectures: ["MusicgenForConditionalGeneration"], model_type: "musicgen" },
    /makes music/,
  ],
  [
    "yolos-tiny",
    { architectures: ["YolosForObjectDetection"], model_type: "yolos" },
    /finds objects/,
  ],
  [
    "depth-anything-small",
    { architectures: ["DepthAnythingForDepthEstimation"], model_type: "depth_anything" },
    /estimates depths/,
  ],
  [
    "wav2vec2-base-superb-er",
    { architectures: ["Wav2Vec2ForSequenceClassification"], model_type: "wav2vec2" },
    /classifies texts or recordings/,
  ],
  [
    "wavlm-base-plus-sv",
    { architectures: ["WavLMForXVector"], model_type: "wavlm" },
    /tells speakers apart/,
  ],
  [
    "wav2vec2-base",
    { architectures: ["Wav2Vec2ForPreTraining"], model_type: "wav2vec2" },
    /is a base model for further training/,
  ],
  ["speecht5_asr", {
    architectures: ["SpeechT5ForSpeechToText"],
    is_encoder_decoder: true,
    model_type: "speecht5",
  }, /recognises speech/],
  [
    "whisper-medium-fleurs-lang-id",
    { architectures: ["WhisperForAudioClassification"], model_type: "whisper" },
    /classifies texts or recordings/,
  ],
  [
    "metaclip-2-worldwide-s16",
    { architectures: ["MetaClip2Model"], model_type: "metaclip_2" },
    /compares images with texts/,
  ],
  [
    "csm-1b",
    { architectures: ["CsmForConditionalGeneration"], model_type: "csm" },
    /is a speech model of a type/,
  ],
  ...Object.entries({
    "moondream2": ["Moondream", "moondream1"],
    "paligemma2-3b-pt-224": ["PaliGemmaForConditionalGeneration", "paligemma"],
    "kosmos-2-patch14-224": ["Kosmos2ForConditionalGeneration", "kosmos-2"],
    "Phi-3.5-vision-instruct": ["Phi3VForCausalLM", "phi3_v"],
    "Phi-4-multimodal-instruct": ["Phi4MMForCausalLM", "phi4mm"],
    "Janus-Pro-1B": ["MultiModalityCausalLM", "multi_modality"],
    "llava-onevision-qwen2-0.5b-ov": ["LlavaOnevisionForConditionalGeneration", "llava_onevision"],
  }).map(([name, [architecture, type]]): typeof UNSERVED[number] => [
    name,
    { architectures: [architecture], model_type: type },
    /is a vision-language model of a type that is not served/,
    ["onnx/vision_encoder.onnx", "onnx/embed_tokens.onnx", "onnx/decoder_model_merged.onnx"],
  ]),
  [
    "Dream-v0",
    { architectures: ["DreamModel"], model_type: "Dream" },
    /is a diffusion language model/,
  ],
  ["reward", { architectures: ["Qwen2ForRewardModel"], model_type: "qwen2" }, /rates answers/],
  [
    "colqwen2-v1.0",
    { architectures: ["ColQwen2ForRetrieval"], model_type: "colqwen2" },
    /compares pages with questions/,
    ["onnx/vision_encoder.onnx", "onnx/embed_tokens.onnx", "onnx/decoder_model_merged.onnx"],
  ],
  [
    "Qwen3-ASR-0.6B",
    { architectures: ["Qwen3ASRForConditionalGeneration"], model_type: "qwen3_asr" },
    /takes speech through/,
    ["onnx/audio_encoder.onnx", "onnx/embed_tokens.onnx", "onnx/decoder_model_merged.onnx"],
  ],
  [
    "t5-small, its configuration shortened",
    { architectures: ["T5ForConditionalGeneration"], model_type: "t5" },
    /is an encoder-decoder for texts/,
    ["onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx"],
  ],
];

for (const [name, config, message, files = []] of UNSERVED) {
  Deno.test(`identifyFamily() refuses ${name} with a sentence that names its kind`, () => {
    assert.throws(
      () => readKind(config, { files }),
      (error: Error) =>
        error instanceof StartupError && message.test(error.message) &&
        error.message.endsWith(": Hearth serves no such model."),
    );
  });
}

Deno.test("identifyFamily() does not confuse an encoder of images or sounds with one of texts", () => {
  const config = { model_type: "vit_msn", architectures: ["ViTMSNModel"] };
  const files = new Set(["config.json", "preprocessor_config.json", "onnx/model.onnx"]);
  assert.throws(() => identifyFamily({ path: "/models/x", files, config }), {
    message: /is an encoder of images or sounds/,
  });
  const speakers = { model_type: "wespeaker-resnet", architectures: ["WeSpeakerResNetModel"] };
  assert.throws(() => readKind(speakers), { message: /tells speakers apart/ });
});

Deno.test("identifyFamily() recognizes rerankers by their name or their only label, but no reward model", () => {
  const classifier = (path: string, config: Record<string, unknown> = {}) =>
    identifyFamily({
      path,
      files: new Set(["config.json"]),
      config: {
        model_type: "xlm-roberta",
        architectures: ["XLMRobertaForSequenceClassification"],
        ...config,
      },
    }).kind;
  assert.equal(classifier("/models/x", { id2label: { 0: "LABEL_0" } }), "rerank");
  assert.equal(classifier("/models/monobert-large-msmarco"), "rerank");
  assert.equal(classifier("/models/bge-reranker-base"), "rerank");
  const oneLabel = { id2label: { 0: "LABEL_0" } };
  assert.throws(() => classifier("/models/Skywork-Reward-V2-Qwen3-0.6B", oneLabel), {
    message: /rates answers for training/,
  });
});

Deno.test("identifyFamily() recognizes EmbeddingGemma 2 as an embedding model, although it has an image encoder", () => {
  const config = {
    architectures: ["EmbeddingGemma2Model"],
    model_type: "embedding_gemma2",
    vision_config: { model_type: "gemma4_vision" },
  };
  const files = ["onnx/model.onnx", "onnx/vision_encoder.onnx", "onnx/audio_encoder.onnx"];
  assert.equal(readKind(config, { files }), "embedding");
});
