/**
 * Chooses the tokens of a step.
 *
 * @module
 */
import type { DecoderLimits } from "../decoder/decoder.ts";
import type { BlockManager } from "./blocks.ts";
import type { Sequence } from "./sequence.ts";
import { isDecoding, type SequenceQueue } from "./sequence_queue.ts";
import type { StateSlots } from "./state_slots.ts";
import type { ScheduledSequence, ScheduledStep } from "./step.ts";

/** What a step is chosen from. */
interface StepSource {
  readonly limits: DecoderLimits;
  readonly queue: SequenceQueue;
  readonly blocks: BlockManager;
  /** Slots of recurrent states, if the model has any. */
  readonly slots: StateSlots | undefined;
}

/** Options of {@linkcode chooseStep}. */
interface StepWanted {
  /**
   * Whether the step only reads prompts, and leaves next tokens to a step that runs while it is suspended. Next tokens
   * still get their blocks first, and count against the limits, so that no more sequences run than one step can hold.
   */
  readonly isApart?: boolean;
  readonly mostPromptTokens: number;
}

/** Chooses a step of next tokens and prompts; `undefined` when there is nothing to do. */
export function chooseStep(
  source: StepSource,
  wanted: StepWanted,
): Omit<ScheduledStep, "stateCopies"> | undefined {
  return new StepChoice(source, wanted).choose();
}

class StepChoice {
  readonly #source: StepSource;
  readonly #isApart: boolean;
  readonly #scheduled: ScheduledSequence[] = [];
  #numNextTokens = 0;
  /** What the step has left: prompt tokens, tokens, and rows of logits. */
  #promptBudget: number;
  #budget: number;
  #rows: number;

  constructor(source: StepSource, { isApart = false, mostPromptTokens }: StepWanted) {
    this.#source = source;
    this.#isApart = isApart;
    this.#promptBudget = mostPromptTokens;
    this.#budget = source.limits.maxBatchTokens;
    this.#rows = source.limits.maxSequences;
  }

  choose(): ReturnType<typeof chooseStep> {
    const { queue } = this.#source;
    for (let i = 0; i < queue.running.length && this.#budget > 0; i++) {
      const sequence = queue.running[i]!;
      if (this.#leave(sequence)) continue;
      const numTokens = this.#countChunk(sequence, queue.running.length - i - 1);
      if (numTokens > 0 && queue.makeRoom(sequence, numTokens)) this.#take(sequence, numTokens);
    }
    while (this.#budget > 0 && this.#rows > 0 && this.#promptBudget > 0) {
      const sequence = queue.admitNext();
      if (sequence === undefined) break;
      if (this.#leave(sequence)) continue;
      const numTokens = this.#countChunk(sequence, 0);
      if (!queue.makeRoom(sequence, numTokens)) break;
      this.#take(sequence, numTokens);
    }
    if (this.#scheduled.length === 0) return undefined;
    return {
      scheduled: this.#scheduled,
      numTokens: this.#scheduled.reduce((sum, { numTokens }) => sum + numTokens, 0),
      numNextTokens: this.#numNextTokens,
      ...this.#isApart && { isApart: true },
    };
  }

  /**
   * How many of a sequence's next tokens the step has room for. One token is reserved for each later sequence. Prompts
   * are scored with the rows of logits that are left over.
   */
  #countChunk(sequence: Sequence, numBehind: number): number {
    const { blocks, queue } = this.#source;
    const { numComputed, length, scoring } = sequence;
    // The first sequence of a step advances, whatever comes after it.
    const mostOfPrompt = Math.max(this.#promptBudget, this.#scheduled.length === 0 ? 1 : 0);
    const spareRows = Math.max(1, this.#rows - numBehind - queue.waiting.length);
    const most = scoring?.maxTokens(numComputed, spareRows) ?? Infinity;
    const limits = [length - numComputed, this.#budget - numBehind, most];
    if (!isDecoding(sequence)) {
      const inWindows = blocks.countWindowTokens(sequence) - numComputed;
      limits.push(mostOfPrompt, Math.max(1, inWindows));
    }
    return this.#endWithBlock(sequence, Math.min(...limits));
  }

  /**
   * Shortens a chunk that is not the prompt's last to end with a block, where the state may be saved. A chunk that
   * would then be empty keeps its length.
   */
  #endWithBlock({ numComputed, length }: Sequence, numTokens: number): number {
    const end = numComputed + numTokens;
    if (this.#source.slots === undefined || end === length) return numTokens;
    const { blockSize } = this.#source.limits;
    const wholeBlocks = Math.floor(end / blockSize) * blockSize - numComputed;
    return wholeBlocks > 0 ? wholeBlocks : numTokens;
  }

  /** Where to save a sequence's state: after its prompt's last full block, if a chunk goes on beyond that. */
  #saveState({ numComputed, numPromptTokens }: Sequence, end: number) {
    const { blocks, slots } = this.#source;
    const lastOfPrompt = blocks.numShareableTokens(numPromptTokens);
    if (slots === undefined || lastOfPrompt <= numComputed || lastOfPrompt >= end) return undefined;
    const slot = slots.take();
    return slot === undefined ? undefined : { numTokens: lastOfPrompt - numComputed, slot };
  }

  #take(sequence: Sequence, numTokens: number): void {
    const { numComputed, length, scoring } = sequence;
    const end = numComputed + numTokens;
    const scored = scoring?.rows(numComputed, end);
    const samples = end === length;
    const savedState = this.#saveState(sequence, end);
    this.#scheduled.push({ sequence, numTokens, samples, scored, ...savedState && { savedState } });
    sequence.isComputing = this.#source.slots !== undefined;
    this.#budget -= numTokens;
    if (isDecoding(sequence)) this.#numNextTokens++;
    else this.#promptBudget -= numTokens;
    this.#rows -= Math.max(1, (scored?.length ?? 0) + (samples ? 1 : 0));
  }

  /** Leaves a sequence's next token to a step that runs while this one is suspended. @returns whether it does. */
  #leave(sequence: Sequence): boolean {
    if (!this.#isApart || !isDecoding(sequence)) return false;
    this.#source.queue.makeRoom(sequence, 1);
    this.#budget--;
    this.#rows--;
    return true;
  }
}
