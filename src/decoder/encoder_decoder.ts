/**
 * The decoder of an encoder-decoder model, cut at its attention nodes. Sequences of any length share a step. The
 * encoder input of a sequence is encoded when the sequence first runs.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import type { NodeHeads } from "../device/encoder_attention.ts";
import type { Tensor } from "../device/ort/ort.ts";
import {
  type CrossProjection,
  type EncoderDecoderAttention,
  TextAligner,
} from "./encoder_decoder_attention.ts";
import {
  type Decoder,
  type DecoderLimits,
  EncoderError,
  type SampledToken,
  type StepBatch,
} from "./decoder.ts";
import type { PagedDecoder } from "./paged_decoder.ts";

/** Encodes inputs that sequences attend to. */
export interface InputEncoder<Input extends object> {
  /** Maximum number of inputs in one call. */
  readonly maxInputs: number;
  /** Whether two inputs may be encoded in one call; any may if absent. */
  isAlike?(input: Input, other: Input): boolean;
  /** Encodes inputs. @returns `[inputs, positions, width]`, owned by the caller. */
  encode(inputs: readonly Input[]): Promise<Tensor>;
}

/** A text, and the encoder input with which it is aligned. */
interface AlignedText {
  readonly encoderInput: object;
  /** All tokens of the text. */
  readonly tokens: readonly number[];
  /** Number of leading positions of the encoder's output that the text may be aligned with. */
  readonly numPositions: number;
  /** The alignment heads. */
  readonly nodes: readonly NodeHeads[];
}

/** The parts of the decoder. The decoder owns all of them. */
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

/** Tracks which encoder inputs are cached in which slots, and evicts the least recently used. Pure. */
export class EncoderSlots {
  /**
   * The input of each slot. The references are weak, since an input without other references cannot be needed again.
   */
  readonly #inputs: (WeakRef<object> | undefined)[];
  readonly #lastUse: number[];
  #clock = 0;

  constructor(numSlots: number) {
    this.#inputs = new Array(numSlots).fill(undefined);
    this.#lastUse = new Array(numSlots).fill(0);
  }

  /**
   * Finds a slot for each input of a step.
   *
   * @param inputs at most as many different ones as there are slots.
   * @returns the slot of each input, and the inputs that are not cached yet: the caller computes their keys and values
   * and then calls {@linkcode keep}.
   */
  assign(inputs: readonly object[]): { slots: number[]; missing: Map<object, number> } {
    const now = ++this.#clock;
    const slotByInput = new Map<object, number>();
    for (const input of inputs) {
      const slot = this.#inputs.findIndex((kept) => kept?.deref() === input);
      if (slot < 0) continue;
      slotByInput.set(input, slot);
      this.#lastUse[slot] = now;
    }
    const missing = new Map<object, number>();
    for (const input of inputs) {
      if (slotByInput.has(input)) continue;
      const slot = this.#takeOldest(now);
      slotByInput.set(input, slot);
      missing.set(input, slot);
    }
    return { slots: inputs.map((input) => slotByInput.get(input)!), missing };
  }

  /** Records that a slot holds an input's keys and values. */
  keep(input: object, slot: number): void {
    this.#inputs[slot] = new WeakRef(input);
  }

  /**
   * Releases an input that no step will need again. The input's slot is assigned again before slots that were never
   * used, so that no more memory is used.
   */
  release(input: object): void {
    const slot = this.#inputs.findIndex((kept) => kept?.deref() === input);
    if (slot >= 0) this.#inputs[slot] = undefined;
  }

  #takeOldest(now: number): number {
    let oldest = 0;
    const getAge = (slot: number) =>
      this.#inputs[slot]?.deref() === undefined && this.#lastUse[slot] !== now
        ? -1
        : this.#lastUse[slot]!;
    for (let slot = 1; slot < this.#inputs.length; slot++) {
      if (getAge(slot) < getAge(oldest)) oldest = slot;
    }
    if (this.#lastUse[oldest] === now) {
      throw new RangeError(`A step has more encoder inputs than the ${this.#inputs.length} slots.`);
    }
    this.#inputs[oldest] = undefined;
    this.#lastUse[oldest] = now;
    return oldest;
  }
}
