import type { SampledToken } from "../decoder/decoder.ts";
import type { EngineLoop } from "./loop.ts";
import type { GenerationRequest } from "./generation_request.ts";

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
  const leave = () => {
    cancel();
    reject(signal.reason);
  };
  signal.addEventListener("abort", leave, { once: true });
  try {
    await promise;
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

/** The result of a request. */
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
