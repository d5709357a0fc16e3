/**
 * NeMo's FastConformer with a token-and-duration transducer (Parakeet TDT). The folder has the layout of onnx-asr's
 * exports: one graph for the preprocessor, one for the encoder, one for the prediction and joint networks together, and
 * the vocabulary in `vocab.txt`.
 *
 * @see https://github.com/istupakov/onnx-asr
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../base/errors.ts";
import { readNumber } from "../../hub/model_folder.ts";
import { disposeTensors, type GraphSession, Tensor } from "../../device/ort/ort.ts";
import { makeInputTensor, openGraph, openWebGraph, requirePorts } from "../folder/graph_file.ts";
import type { OpenContext } from "../model.ts";
import { openFrameRecogniser } from "./frame_recogniser.ts";
import { findLanguages, type Recogniser, type RecogniserOptions } from "./recogniser.ts";
import {
  findLikeliest,
  type Frames,
  type FrameToken,
  type GreedyDecoder,
  type Vocabulary,
} from "./frame_tokens.ts";

const [ENCODER, JOINT, PREPROCESSOR] = ["encoder-model", "decoder_joint-model", "nemo128"] as const;
/** The inputs and outputs that each graph must have. */
const PORTS = {
  [PREPROCESSOR]: {
    inputs: ["waveforms", "waveforms_lens"],
    outputs: ["features", "features_lens"],
  },
  [ENCODER]: {
    inputs: ["audio_signal", "length"],
    outputs: ["outputs", "encoded_lengths"],
  },
  [JOINT]: {
    inputs: ["encoder_outputs", "targets", "target_length", "input_states_1", "input_states_2"],
    outputs: ["outputs", "output_states_1", "output_states_2"],
  },
} as const;
const BLANK = "<blk>";
const SAMPLE_RATE_HZ = 16_000;
/** Samples from one spectrum to the next in NeMo's preprocessor. */
const HOP_SAMPLES = 160;

/** The state of the prediction network. */
type JointState = readonly [Tensor, Tensor];

/** @throws {StartupError} when a file is missing from the folder, or a graph lacks an expected input or output. */
export async function loadTdt(
  context: OpenContext,
  { metrics }: RecogniserOptions,
): Promise<Recogniser> {
  const { folder, graphs, backend, onProgress } = context;
  const vocabulary = await readVocabulary(folder.path);
  // These two graphs run on the CPU: a GPU does not support their operators, and each decoding step depends on the
  // previous one.
  const preprocessor = await openOnCpu(PREPROCESSOR, context);
  const joint = await openJoint(context);
  const encoder = requirePorts(await openGraph(ENCODER, context), {
    ...PORTS[ENCODER],
    of: `${folder.path}: ${ENCODER}`,
  });
  const run = async (samples: Float32Array) => {
    const { features, features_lens: length } = await preprocessor.run({
      waveforms: new Tensor("float32", samples, [1, samples.length]),
      waveforms_lens: new Tensor("int64", BigInt64Array.of(BigInt(samples.length)), [1]),
    });
    const encoded = await encoder.run({ audio_signal: features!, length: length! });
    try {
      const { outputs, encoded_lengths } = encoded;
      const numFrames = Number((await encoded_lengths!.getData())[0]);
      return transpose(await backend.read(outputs!), outputs!.dims, numFrames);
    } finally {
      disposeTensors(encoded);
    }
  };
  onProgress({ what: "warming up" });
  const { rows } = await run(new Float32Array(SAMPLE_RATE_HZ));
  const { logits } = await joint.run(rows.slice(0, joint.width), vocabulary.blank, joint.begin());
  if (logits.length <= vocabulary.texts.length) {
    throw new StartupError(
      `${folder.path}: its ${JOINT} returns ${logits.length} logits, and vocab.txt has ${vocabulary.texts.length} ` +
        "tokens. A TDT model returns more logits than tokens, for the durations.",
    );
  }
  return openFrameRecogniser({
    dtype: graphs.main.dtype,
    sampleRateHz: SAMPLE_RATE_HZ,
    samplesPerFrame: HOP_SAMPLES * (readNumber(folder.config, "subsampling_factor") ?? 8),
    languages: findLanguages(folder),
    metrics,
    run,
    openDecoder: () => new TdtGreedyDecoder(joint, vocabulary),
    dispose: async () => {
      for (const session of [preprocessor, encoder, joint]) await session.release();
    },
  });
}

/**
 * Reads the vocabulary. Each line holds a token and its id: `▁the 5`. `▁` stands for a space, and tokens in angle
 * brackets are not text.
 */
async function readVocabulary(folder: string): Promise<Vocabulary> {
  const file = await Deno.readTextFile(join(folder, "vocab.txt")).catch(() => {
    throw new StartupError(`${folder} has no vocab.txt, which lists the model's tokens.`);
  });
  const texts: string[] = [];
  let blank: number | undefined;
  for (const line of file.split(/\r?\n/).filter((line) => line.trim() !== "")) {
    const [, token, number] = /^(.*) (\d+)$/.exec(line) ?? [];
    if (number === undefined || Number(number) !== texts.length) {
      throw new StartupError(
        `${folder}/vocab.txt has the line ${JSON.stringify(line)} for token ${texts.length}; ` +
          "wanted: the token, a space and its number, counted from 0.",
      );
    }
    if (token === BLANK) blank = texts.length;
    texts.push(/^<.+>$/.test(token!) ? "" : token!.replaceAll("▁", " "));
  }
  if (blank !== undefined) return { blank, texts };
  throw new StartupError(`${folder}/vocab.txt has ${texts.length} tokens and no ${BLANK}.`);
}

async function openOnCpu(name: typeof JOINT | typeof PREPROCESSOR, context: OpenContext) {
  const { folder, graphs, backend, onProgress } = context;
  const ports = { ...PORTS[name], of: `${folder.path}: ${name}` };
  if (backend.kind === "cpu") return requirePorts(await openGraph(name, context), ports);
  const { path } = graphs.get(name);
  onProgress({ what: `loading ${path}` });
  return requirePorts(await openWebGraph(folder.path, path), ports);
}

/** Opens the prediction and joint networks, which run one step of one recording at a time. */
async function openJoint(
  context: OpenContext,
): Promise<Joint<JointState> & Pick<GraphSession, "release">> {
  const session = await openOnCpu(JOINT, context);
  const getInfo = (input: string) => session.inputs.find(({ name }) => name === input)!;
  const getSize = (input: string, axis: number) => {
    const size = getInfo(input).shape[axis];
    if (typeof size === "number") return size;
    throw new StartupError(
      `${context.folder.path}: the size of axis ${axis} of ${JOINT}'s input ${input} is not fixed.`,
    );
  };
  const zeros = (input: string) => {
    const dims = [getSize(input, 0), 1, getSize(input, 2)];
    return new Tensor("float32", new Float32Array(dims[0]! * dims[2]!), dims);
  };
  const integer = (input: string, value: number, dims: readonly number[]) =>
    makeInputTensor(getInfo(input), [value], dims);
  const width = getSize("encoder_outputs", 1);
  return {
    width,
    begin: () => [zeros("input_states_1"), zeros("input_states_2")],
    run: async (frame, lastToken, [first, second]) => {
      const { outputs, output_states_1, output_states_2 } = await session.run({
        encoder_outputs: new Tensor("float32", frame, [1, width, 1]),
        targets: integer("targets", lastToken, [1, 1]),
        target_length: integer("target_length", 1, [1]),
        input_states_1: first,
        input_states_2: second,
      });
      const state = [output_states_1!, output_states_2!] as const;
      return { logits: outputs!.data as Float32Array, state };
    },
    release: () => session.release(),
  };
}

/** Transposes the first frames of `[1, width, length]` to `[numFrames, width]`. */
function transpose(
  values: Float32Array,
  dims: readonly number[],
  numFrames: number,
): { rows: Float32Array; numFrames: number } {
  const [, width, length] = dims as [number, number, number];
  const rows = new Float32Array(numFrames * width);
  for (let i = 0; i < width; i++) {
    for (let frame = 0; frame < numFrames; frame++) {
      rows[frame * width + i] = values[i * length + frame]!;
    }
  }
  return { rows, numFrames };
}

/** The prediction and joint networks. `State` is the predictor's state before the last token. */
export interface Joint<State> {
  /** Number of f32 elements in a frame. */
  readonly width: number;
  /** Returns the state before the first token, where the blank counts as the last token. */
  begin(): State;
  /**
   * Runs both networks on the last token and a frame.
   *
   * @returns f32 logits of the tokens and the blank, then of the durations (0, 1, 2 … frames); and the predictor's
   * state after the last token.
   */
  run(
    frame: Float32Array,
    lastToken: number,
    state: State,
  ): Promise<{ readonly logits: Float32Array; readonly state: State }>;
}

/** Maximum number of tokens per frame, as in NeMo. */
const MAX_TOKENS_PER_FRAME = 10;

/**
 * Decodes a token-and-duration transducer. At each frame the joint network, given the tokens so far, predicts the next
 * token or the blank, and the number of frames to skip.
 *
 * @see H. Xu et al.: Efficient Sequence Transduction by Jointly Predicting Tokens and Durations, 2023, algorithm 2
 */
export class TdtGreedyDecoder<State> implements GreedyDecoder {
  readonly #joint: Joint<State>;
  readonly #vocabulary: Vocabulary;
  #state: State;
  #lastToken: number;
  /** Index in the recording of the next frame to read. */
  #next = 0;

  constructor(joint: Joint<State>, vocabulary: Vocabulary) {
    this.#joint = joint;
    this.#vocabulary = vocabulary;
    this.#state = joint.begin();
    this.#lastToken = vocabulary.blank;
  }

  /** @returns the tokens. Each lasts from its frame to the next frame that is read. */
  async push(
    { rows, from, to, firstFrame }: Frames,
    signal: AbortSignal,
  ): Promise<FrameToken[]> {
    const { width } = this.#joint;
    const { blank, texts } = this.#vocabulary;
    const tokens: FrameToken[] = [];
    this.#next = Math.max(this.#next, firstFrame + from);
    for (let numHere = 0; this.#next < firstFrame + to;) {
      signal.throwIfAborted();
      const startFrame = this.#next;
      const row = startFrame - firstFrame;
      const frame = rows.slice(row * width, (row + 1) * width);
      const { logits, state } = await this.#joint.run(frame, this.#lastToken, this.#state);
      const { id, logprob } = findLikeliest(logits.subarray(0, texts.length));
      let step = findLikeliest(logits.subarray(texts.length)).id;
      const isToken = id !== blank;
      if (isToken) numHere++;
      if (step === 0 && (!isToken || numHere === MAX_TOKENS_PER_FRAME)) step = 1;
      this.#next += step;
      if (step > 0) numHere = 0;
      if (!isToken) {
        lengthen(tokens, this.#next);
        continue;
      }
      this.#state = state;
      this.#lastToken = id;
      tokens.push({ id, text: texts[id]!, startFrame, endFrame: this.#next, logprob });
    }
    return tokens;
  }

  /** Returns nothing: no token is ever open, as its duration is known when it is emitted. */
  end(): FrameToken[] {
    return [];
  }
}

/** Extends a last token of duration 0 to one frame, if a later frame is read next. */
function lengthen(tokens: FrameToken[], next: number): void {
  const last = tokens.at(-1);
  if (last === undefined || last.endFrame > last.startFrame) return;
  tokens[tokens.length - 1] = { ...last, endFrame: Math.min(next, last.startFrame + 1) };
}
