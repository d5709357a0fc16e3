/**
 * Generates a single sequence: for tasks that are not chats, such as transcription, and for the first run of a decoder.
 *
 * @module
 */
import { untilAborted } from "../base/timing.ts";
import { type Decoder, GREEDY, type SampledToken } from "../decoder/decoder.ts";
import { EngineLoop } from "./loop.ts";
import type { GenerationRequest } from "./sequence.ts";

/** A request for a single sample. */
export interface GenerateOptions<Token extends SampledToken = SampledToken>
  extends Omit<GenerationRequest, "samples"> {
  readonly sample: GenerationRequest["samples"][number];
  /** Called for each token. @returns whether the sequence ends with it. */
  readonly onToken: (token: Token) => boolean;
  readonly signal: AbortSignal;
}

/**
 * Runs a request to its end.
 *
 * @throws the signal's reason, or what a step throws; the request then leaves the batch before the next step.
 */
export async function generate<Token extends SampledToken>(
  engine: EngineLoop<Token>,
  { sample, onToken, signal, ...request }: GenerateOptions<Token>,
): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const cancel = engine.add({ ...request, samples: [sample] }, {
    onToken: (_, token) => onToken(token),
    onDone: () => resolve(),
    onError: reject,
  });
  try {
    await untilAborted(promise, signal);
  } finally {
    cancel();
  }
}

interface Generated {
  /** Tokens, without the one that ended the sequence. */
  readonly tokens: number[];
  /** Sum of the natural log-probabilities of all chosen tokens, including the one that ended the sequence. */
  readonly sumLogprobs: number;
  /** Number of chosen tokens, including the one that ended the sequence. */
  readonly numChosen: number;
}

/** Runs a request until one of `endTokens`, or its maximum length. @throws as {@linkcode generate} does. */
export async function generateTokens(
  engine: EngineLoop,
  { endTokens, ...request }: Omit<GenerateOptions, "onToken"> & {
    readonly endTokens: readonly number[];
  },
): Promise<Generated> {
  const tokens: number[] = [];
  let [sumLogprobs, numChosen] = [0, 0];
  await generate(engine, {
    ...request,
    onToken: ({ tokenId, logprob }) => {
      sumLogprobs += logprob;
      numChosen++;
      const ends = endTokens.includes(tokenId);
      if (!ends) tokens.push(tokenId);
      return ends;
    },
  });
  return { tokens, sumLogprobs, numChosen };
}

/**
 * Default length of the prompt that warms up a decoder. ONNX Runtime compiles GPU programs when it first sees a shape.
 */
const PROMPT_TOKENS = 24;

/**
 * Runs a short prompt and generates three tokens, so that a model that loads but cannot run fails now.
 *
 * @param encoderInput encoder input, for an encoder-decoder.
 * @throws {Error} what the decoder throws.
 */
export async function warmUp(decoder: Decoder, encoderInput?: object): Promise<void> {
  const { contextLength, vocabSize } = decoder.limits;
  const { warmUpTokens = PROMPT_TOKENS } = decoder;
  const length = Math.max(1, Math.min(warmUpTokens, contextLength - 3));
  const engine = new EngineLoop(decoder, { prefixCache: false });
  await generate(engine, {
    promptTokens: Int32Array.from({ length }, (_, i) => i % vocabSize),
    sample: { ...GREEDY, temperature: 1 },
    maxTokens: 3,
    topLogprobs: 0,
    encoderInput,
    onToken: () => false,
    signal: new AbortController().signal,
  });
  await engine.close();
}
