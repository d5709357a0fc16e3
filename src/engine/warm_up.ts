/**
 * The first run of a decoder, before the first request.
 *
 * @module
 */
import { type Decoder, GREEDY } from "../decoder/decoder.ts";
import { EngineLoop } from "./loop.ts";

const PROMPT_TOKENS = 24;

/**
 * Runs a short prompt and two next tokens of one sequence, and of as many as take programs of their own: devices compile
 * programs when they first meet a shape, and a model that loads but cannot run fails now. Prompts of other lengths follow
 * where those take programs too.
 *
 * @param encoderInput encoder input, for an encoder-decoder.
 * @throws {Error} what the decoder throws.
 */
export async function warmUp(decoder: Decoder, encoderInput?: object): Promise<void> {
  const {
    limits: { contextLength, vocabSize, maxSequences },
    numWarmUpSequences = 1,
    warmUpLengths = [],
  } = decoder;
  const most = contextLength - 3;
  const shortLength = Math.max(1, Math.min(PROMPT_TOKENS, most));
  const engine = new EngineLoop(decoder, { prefixCache: false, pacesPrompts: false });
  const run = (numSequences: number, length = shortLength) =>
    new Promise<void>((resolve, reject) =>
      engine.add({
        promptTokens: Int32Array.from({ length }, (_, i) => i % vocabSize),
        samples: Array.from({ length: numSequences }, () => ({ ...GREEDY, temperature: 1 })),
        // They begin one after the other, a part of the prompt a step, and must all be there at the end.
        maxTokens: 1 + 2 * numSequences,
        topLogprobs: 0,
        encoderInput,
      }, {
        onToken: () => false,
        onDone: () => resolve(),
        onError: reject,
      })
    );
  await run(1);
  const numSequences = Math.min(numWarmUpSequences, maxSequences);
  if (numSequences > 1) await run(numSequences);
  for (const length of warmUpLengths) if (length <= most) await run(1, length);
  await engine.close();
}
