/**
 * Models with a CTC head: wav2vec2, HuBERT, WavLM, UniSpeech, wav2vec2-bert and Parakeet CTC.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { disposeTensors } from "../../device/ort/ort.ts";
import { openGraph, toFeeds } from "../folder/graph_file.ts";
import type { OpenContext } from "../model.ts";
import {
  findLikeliest,
  type Frames,
  type FrameToken,
  type GreedyDecoder,
  type Vocabulary,
} from "./frame_tokens.ts";
import { openFrameRecogniser } from "./frame_recogniser.ts";
import { type Json, readJson, readNumber, readOptionalJson } from "../../hub/model_folder.ts";
import {
  findLanguages,
  openPart,
  openSpeechFeatures,
  type Recogniser,
  type RecogniserOptions,
} from "./recogniser.ts";

const GRAPH = "model";

/** @throws {StartupError} when a file is missing from the folder, or the folder does not hold a CTC model. */
export async function loadCtc(
  context: OpenContext,
  { metrics }: RecogniserOptions,
): Promise<Recogniser> {
  const { backend, folder, graphs, onProgress } = context;
  const architectures = [folder.config["architectures"] ?? []].flat().map(String);
  if (architectures.length > 0 && !architectures.some((name) => name.endsWith("ForCTC"))) {
    throw new StartupError(
      `${folder.path} is not a speech recogniser: its config.json names the architecture ${
        architectures.join(", ")
      }, but a name that ends in ForCTC is expected.`,
    );
  }
  const config = readCtcConfig({
    config: folder.config,
    preprocessorConfig: await readOptionalJson(folder, "preprocessor_config.json"),
    tokenizerConfig: await readOptionalJson(folder, "tokenizer_config.json"),
    tokenizer: await readJson(folder.path, "tokenizer.json"),
  });
  const features = await openSpeechFeatures(folder, { takesText: false });
  const session = await openPart(folder, () => openGraph(GRAPH, context));
  const numClasses = config.vocabulary.texts.length;
  const run = async (samples: Float32Array) => {
    const inputs = await features.prepare(samples);
    const feeds = toFeeds(session, { getTensor: (input) => inputs[input], of: GRAPH });
    const outputs = await session.run(feeds);
    const { dims } = outputs["logits"]!;
    const logits = await backend.read(outputs["logits"]!);
    disposeTensors(outputs);
    if (dims.at(-1) === numClasses) return { rows: logits, numFrames: dims[1]! };
    throw new StartupError(
      `${folder.path}: its graph returns ${
        dims.at(-1)
      } classes, but vocab_size in config.json is ${numClasses}.`,
    );
  };
  // The first run checks the graph and compiles its kernels.
  onProgress({ what: "warming up" });
  await run(new Float32Array(features.sampleRateHz));
  return openFrameRecogniser({
    dtype: graphs.main.dtype,
    sampleRateHz: features.sampleRateHz,
    samplesPerFrame: config.samplesPerFrame,
    languages: findLanguages(folder),
    metrics,
    run,
    openDecoder: () => new CtcGreedyDecoder(config.vocabulary),
    dispose: () => session.release(),
  });
}

/** The configuration for decoding a CTC model's output. */
interface CtcConfig {
  readonly vocabulary: Vocabulary;
  /** Number of samples from one frame of the output to the next. */
  readonly samplesPerFrame: number;
}

export interface CtcFiles {
  readonly config: Json;
  readonly preprocessorConfig: Json;
  readonly tokenizerConfig: Json;
  readonly tokenizer: Json;
}

/** Samples from one frame of wav2vec2-bert's filter banks to the next: 10 ms. The model joins every two frames. */
const BERT_HOP_SAMPLES = 160;

/** @throws {StartupError} when a value is missing. */
export function readCtcConfig(files: CtcFiles): CtcConfig {
  return { vocabulary: readVocabulary(files), samplesPerFrame: readSamplesPerFrame(files) };
}

function readVocabulary({ config, tokenizer, tokenizerConfig }: CtcFiles): Vocabulary {
  const vocab = (tokenizer["model"] as Json | undefined)?.["vocab"];
  // A Unigram model lists its tokens with scores; the other models map each token to its id.
  const entries: [string, number][] = Array.isArray(vocab)
    ? vocab.map((entry, id) => [String((entry as unknown[])[0]), id])
    : Object.entries((vocab ?? {}) as Record<string, number>);
  const numClasses = config["vocab_size"];
  const blank = config["pad_token_id"];
  if (entries.length === 0 || typeof numClasses !== "number" || typeof blank !== "number") {
    throw new StartupError(
      "The folder does not hold a CTC model. Wanted: vocab_size and pad_token_id in config.json, and a vocabulary in tokenizer.json.",
    );
  }
  const decoder = (tokenizer["decoder"] ?? {}) as Json;
  const delimiter = tokenizerConfig["word_delimiter_token"] ?? decoder["word_delimiter_token"];
  const texts = new Array<string>(numClasses).fill("");
  for (const [token, id] of entries) {
    if (id >= numClasses || isSpecial(token)) continue;
    texts[id] = token === delimiter ? " " : token.replaceAll("▁", " ");
  }
  for (const id of listAddedSpecials(tokenizer)) if (id < numClasses) texts[id] = "";
  texts[blank] = "";
  return { blank, texts };
}

/** Whether a token is special, judging by its spelling: `<unk>` or `[PAD]`. */
function isSpecial(token: string): boolean {
  return /^(<.+>|\[[A-Z]+\])$/.test(token);
}

function listAddedSpecials(tokenizer: Json): number[] {
  const added = tokenizer["added_tokens"];
  if (!Array.isArray(added)) return [];
  return (added as { id: number; special?: boolean }[])
    .filter(({ special }) => special === true).map(({ id }) => id);
}

function readSamplesPerFrame({ config, preprocessorConfig }: CtcFiles): number {
  switch (config["model_type"]) {
    case "wav2vec2-bert": {
      const layers = config["add_adapter"] === true
        ? readNumber(config, "num_adapter_layers") ?? 1
        : 0;
      const together = readNumber(preprocessorConfig, "stride") ?? 2;
      return BERT_HOP_SAMPLES * together * (readNumber(config, "adapter_stride") ?? 2) ** layers;
    }
    case "parakeet_ctc": {
      const encoder = (config["encoder_config"] ?? {}) as Json;
      return (readNumber(preprocessorConfig, "hop_length") ?? 160) *
        (readNumber(encoder, "subsampling_factor") ?? 8);
    }
  }
  const strides = config["conv_stride"];
  if (Array.isArray(strides) && strides.length > 0 && strides.every((each) => each > 0)) {
    return strides.reduce((product: number, stride: number) => product * stride, 1);
  }
  throw new StartupError(
    "The folder's config.json has no conv_stride, from which the length of the output's frames is computed.",
  );
}

/**
 * Takes the likeliest token of each frame, merges repetitions and leaves out blanks. Each token keeps its range of
 * frames, from which word times are computed. A token that continues in the next chunk stays one token.
 *
 * @see A. Graves et al.: Connectionist Temporal Classification, 2006, section 3.2 (best path decoding)
 */
export class CtcGreedyDecoder implements GreedyDecoder {
  readonly #vocabulary: Vocabulary;
  #last: { id: number; startFrame: number; endFrame: number; logprob: number } | undefined;

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  push({ rows, from, to, firstFrame }: Frames): FrameToken[] {
    const numClasses = this.#vocabulary.texts.length;
    const ended: FrameToken[] = [];
    for (let frame = from; frame < to; frame++) {
      const row = rows.subarray(frame * numClasses, (frame + 1) * numClasses);
      const { id, logprob } = findLikeliest(row);
      const position = firstFrame + frame;
      if (this.#last?.id === id) {
        this.#last.endFrame = position + 1;
        this.#last.logprob = Math.max(this.#last.logprob, logprob);
        continue;
      }
      ended.push(...this.end());
      if (id !== this.#vocabulary.blank) {
        this.#last = { id, startFrame: position, endFrame: position + 1, logprob };
      }
    }
    return ended;
  }

  end(): FrameToken[] {
    const last = this.#last;
    this.#last = undefined;
    return last === undefined ? [] : [{ ...last, text: this.#vocabulary.texts[last.id]! }];
  }
}
