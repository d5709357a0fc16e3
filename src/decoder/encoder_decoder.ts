/**
 * The decoder of an encoder-decoder model, split at its attention nodes. Sequences of any length share a step, and the
 * encoder input of each is encoded when it first runs.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import type { NodeHeads } from "../device/cross_alignment.ts";
import type { Tensor } from "../device/ort/ort.ts";
import type { CrossProjection } from "./cross_projection.ts";
import type { Decoder, DecoderLimits, SampledToken, StepBatch } from "./decoder.ts";
import { EncoderError } from "./embedding_span.ts";
import type { EncoderDecoderAttention } from "./encoder_decoder_attention.ts";
import { EncoderSlots } from "./encoder_slots.ts";
import type { PagedDecoder } from "./paged_decoder.ts";
import { TextAligner } from "./text_aligner.ts";

/** Encodes inputs that sequences attend to. */
export interface InputEncoder<Input extends object> {
  /** Most inputs in one call. */
  readonly maxInputs: number;
  /** Whether two inputs may be encoded in one call; any may if absent. */
  isAlike?(input: Input, other: Input): boolean;
  /** Encodes inputs. @returns `[inputs, positions, width]`, owned by the caller. */
  encode(inputs: readonly Input[]): Promise<Tensor>;
}

/** A text, and the encoder input to align it with. */
interface AlignedText {
  readonly encoderInput: object;
  /** All tokens of the text. */
  readonly tokens: readonly number[];
  /** Number of leading positions of the encoder's output that the text may be aligned with. */
  readonly numPositions: number;
  /** The alignment heads. */
  readonly nodes: readonly NodeHeads[];
}

/** The parts of the decoder, which owns all of them. */
interface EncoderDecoderParts<Input extends object> {
  readonly backend: Backend;
  readonly encoder: InputEncoder<Input>;
  readonly projection: CrossProjection;
  readonly decoder: PagedDecoder;
  readonly attention: EncoderDecoderAttention;
}

export class EncoderDecoder<Input extends object> implements Decoder {
  readonly limits: DecoderLimits;
  readonly #parts: EncoderDecoderParts<Input>;
  readonly #slots: EncoderSlots;
  readonly #aligner: TextAligner;
  /** Runs steps and alignments one after the other. */
  #running: Promise<unknown> = Promise.resolve();

  constructor(parts: EncoderDecoderParts<Input>) {
    const { limits } = parts.decoder;
    this.#parts = parts;
    this.#slots = new EncoderSlots(limits.maxSequences);
    // The last blocks are reserved for the aligner.
    const blocksPerSequence = Math.ceil(limits.contextLength / limits.blockSize);
    const numBlocks = limits.numBlocks - blocksPerSequence;
    this.limits = { ...limits, numBlocks };
    this.#aligner = new TextAligner({ ...parts, firstBlock: numBlocks, blocksPerSequence });
  }

  get logitsDtype(): "float32" | "float16" {
    return this.#parts.decoder.output.dtype as "float32" | "float16";
  }

  run(batch: StepBatch): Promise<SampledToken[]> {
    return this.#exclusively(async () => {
      return await this.#parts.decoder.run(await this.#encode(batch));
    });
  }

  /** Runs a step without sampling: see {@linkcode PagedDecoder.forward}. */
  async *forward(batch: StepBatch): ReturnType<PagedDecoder["forward"]> {
    yield* this.#parts.decoder.forward(await this.#encode(batch));
  }

  /**
   * Aligns a text with its encoder input.
   *
   * @returns f32 `[tokens, numPositions]`: how much more than other tokens each token attends to each position.
   */
  align({ encoderInput, ...text }: AlignedText): Promise<Float32Array> {
    return this.#exclusively(async () => {
      const [slot] = await this.#takeSlots([encoderInput as Input]);
      return await this.#aligner.align({ ...text, slot: slot! });
    });
  }

  /** Frees the slot of an encoder input that no sequence needs any more. */
  release(encoderInput: object): void {
    this.#slots.release(encoderInput);
  }

  async dispose(): Promise<void> {
    this.#aligner.dispose();
    await this.#parts.projection.dispose();
    await this.#parts.decoder.dispose();
  }

  #exclusively<T>(run: () => Promise<T>): Promise<T> {
    const running = this.#running.then(run);
    this.#running = running.catch(() => {});
    return running;
  }

  /** Returns the step with the slots of its encoder inputs. New inputs are encoded first. */
  async #encode(batch: StepBatch): Promise<StepBatch> {
    const { sequences } = batch;
    const inputs = sequences.map(({ encoderInput }) => encoderInput as Input);
    try {
      const slots = await this.#takeSlots(inputs);
      return {
        ...batch,
        sequences: sequences.map((sequence, s) => ({ ...sequence, encoderSlot: slots[s]! })),
      };
    } catch (error) {
      if (!(error instanceof InputsError)) throw error;
      const failed = sequences.filter((_, s) => error.inputs.includes(inputs[s]!));
      throw new EncoderError(failed.map(({ sequenceId }) => sequenceId), error.cause);
    }
  }

  /** Returns the slots of inputs. Inputs that have none are encoded, in as few calls as possible. */
  async #takeSlots(inputs: readonly Input[]): Promise<number[]> {
    const { encoder } = this.#parts;
    const { slots, missing } = this.#slots.assign(inputs);
    const waiting = [...missing.keys()] as Input[];
    while (waiting.length > 0) {
      const [first] = waiting;
      const together = waiting.filter((input) => encoder.isAlike?.(first!, input) ?? true)
        .slice(0, encoder.maxInputs);
      try {
        await this.#keep(together, together.map((input) => missing.get(input)!));
      } catch (error) {
        throw new InputsError(together, error);
      }
      for (const input of together) waiting.splice(waiting.indexOf(input), 1);
    }
    return slots;
  }

  async #keep(inputs: readonly Input[], slots: readonly number[]): Promise<void> {
    const { encoder, projection, attention } = this.#parts;
    const hidden = await encoder.encode(inputs);
    await projection.run(hidden, (node, tensors) => attention.keep(node, tensors, slots));
    hidden.dispose();
    inputs.forEach((input, i) => this.#slots.keep(input, slots[i]!));
  }
}

/** Says that some inputs could not be encoded. */
class InputsError extends Error {
  readonly inputs: readonly object[];

  constructor(inputs: readonly object[], cause: unknown) {
    super("Some inputs could not be encoded.", { cause });
    this.inputs = inputs;
  }
}
