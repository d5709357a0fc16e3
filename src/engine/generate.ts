import type { SampledToken } from "../decoder/decoder.ts";
import type { EngineLoop } from "./loop.ts";
import type { GenerationRequest } from "./generation_request.ts";

/** A request of one sample. */
export interface GenerateOptions extends Omit<GenerationRequest, "samples"> {
  readonly sample: GenerationRequest["samples"][number];
  /** @returns whether the sequence ends with the token. */
  readonly onToken: (token: SampledToken) => boolean;
  readonly signal: AbortSignal;
}

/**
 * Runs a request to its end.
 *
 * @throws the signal's reason, and what the step throws; the request is out of the batch before the next step then.
 */
export async function generate(
  engine: EngineLoop,
  { sample, onToken, signal, ...request }: GenerateOptions,
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
