import type { SampledToken } from "../decoder/decoder.ts";
import type { EngineLoop } from "./loop.ts";
import type { GenerationRequest } from "./generation_request.ts";

/** A request of one sample. */
export interface GenerateOptions<Token extends SampledToken = SampledToken>
  extends Omit<GenerationRequest, "samples"> {
  readonly sample: GenerationRequest["samples"][number];
  /** @returns whether the sequence ends with the token. */
  readonly onToken: (token: Token) => boolean;
  readonly signal: AbortSignal;
}

/**
 * Runs a request to its end.
 *
 * @throws the signal's reason, and what the step throws; the request is out of the batch before the next step then.
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

/** What a request generated. */
interface Generated {
  /** Tokens without the one that ended it. */
  readonly tokens: number[];
  /** Sum of the natural logarithms of all chosen tokens' probabilities, the end's among them. */
  readonly sumLogprobs: number;
  /** Tokens that were chosen, the end among them. */
  readonly numChosen: number;
}

/** Runs a request to the first of `endTokens`, or its length. @throws as {@linkcode generate} does. */
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
