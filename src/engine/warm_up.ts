/**
 * The first run of a decoder, before the first request.
 *
 * @module
 */
import { type Decoder, GREEDY } from "../decoder/decoder.ts";
import { EngineLoop } from "./loop.ts";

/** Length of the prompt. ONNX Runtime compiles GPU programs when it first sees a shape. */
const PROMPT_TOKENS = 24;

/**
 * Runs a short prompt and two next tokens, so that a model that loads but cannot run fails now.
 *
 * @param encoderInput encoder input, for an encoder-decoder.
 * @throws {Error} what the decoder throws.
 */
export async function warmUp(decoder: Decoder, encoderInput?: object): Promise<void> {
  const { contextLength, vocabSize } = decoder.limits;
  const { warmUpTokens = PROMPT_TOKENS } = decoder;
  const length = Math.max(1, Math.min(warmUpTokens, contextLength - 3));
  const engine = new EngineLoop(decoder, { prefixCache: false });
  await new Promise<void>((resolve, reject) =>
    engine.add({
      promptTokens: Int32Array.from({ length }, (_, i) => i % vocabSize),
      samples: [{ ...GREEDY, temperature: 1 }],
      maxTokens: 3,
      topLogprobs: 0,
      encoderInput,
    }, {
      onToken: () => false,
      onDone: () => resolve(),
      onError: reject,
    })
  );
  await engine.close();
}
