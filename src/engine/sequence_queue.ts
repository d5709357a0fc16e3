/**
 * Running and waiting sequences, both in order of arrival, and the choice of the tokens of a step.
 *
 * @module
 */
import type { DecoderLimits } from "../decoder/decoder.ts";
import type { BlockManager } from "./blocks.ts";
import type { Sequence } from "./sequence.ts";
import type { StateSlots } from "./idle_blocks.ts";
import type { ScheduledSequence, ScheduledStep } from "./step.ts";

/** The next step's needs from a pool. */
export interface PoolDemand {
  /** Blocks that are missing even if all cached blocks are evicted; 0 or less if none are. */
  readonly numMissing: number;
  /** Cached blocks of other prefixes that would be evicted; 0 or less if none would be. */
  readonly numEvicted: number;
}

/**
 * Runs sequences in order of arrival. Only the newest is ever preempted, and it returns to the front of the queue. So
 * the running sequences are always the oldest ones, and none is overtaken.
 */
export class SequenceQueue {
  /** Running sequences, all older than the waiting ones. */
  readonly running: Sequence[] = [];
  readonly waiting: Sequence[] = [];
  /** Preemptions since the start. */
  numPreemptions = 0;
  readonly #limits: DecoderLimits;
  readonly #blocks: BlockManager;

  constructor(limits: DecoderLimits, blocks: BlockManager) {
    this.#limits = limits;
    this.#blocks = blocks;
  }

  /** Removes a sequence that has ended. */
  remove(sequence: Sequence): void {
    const queue = sequence.status === "running" ? this.running : this.waiting;
    queue.splice(queue.indexOf(sequence), 1);
  }

  /** Whether sequences wait for a next token. */
  get isDecoding(): boolean {
    return this.running.some(isDecoding);
  }

  /** Whether more than `mostBeside` prompt tokens are to be read. */
  hasUnread(mostBeside: number): boolean {
    if (mostBeside === Infinity) return false;
    let numUnread = 0;
    for (const sequence of [...this.running, ...this.waiting]) {
      if (!isDecoding(sequence)) numUnread += sequence.length - sequence.numComputed;
      if (numUnread > mostBeside) return true;
    }
    return false;
  }

  /** Admits the sequence that has waited longest, if there is room for it. */
  admitNext(): Sequence | undefined {
    const sequence = this.waiting[0];
    if (sequence === undefined || this.running.length === this.#limits.maxSequences) {
      return undefined;
    }
    if (this.#awaitsSibling(sequence)) return undefined;
    // Keeps one spare block per running sequence. Without these blocks, new sequences are often preempted soon, and in
    // a tight pool a fifth more tokens are computed to save 5 % of the steps.
    if (!this.#blocks.admit(sequence, this.running.length)) return undefined;
    this.waiting.shift();
    this.running.push(sequence);
    sequence.status = "running";
    return sequence;
  }

  /**
   * Gives `sequence` the blocks for its next tokens, and preempts the newest sequences if blocks are missing.
   *
   * @returns false when `sequence` was itself preempted.
   */
  makeRoom(sequence: Sequence, numTokens: number): boolean {
    while (!this.#blocks.grow(sequence, sequence.numComputed + numTokens)) {
      const newest = this.running.pop()!;
      this.#blocks.release(newest);
      newest.status = "waiting";
      this.waiting.unshift(newest);
      this.numPreemptions++;
      if (newest === sequence) return false;
    }
    return true;
  }

  /**
   * Moves the running sequences at index `first` and after it back to the queue: none may run while an older one waits.
   */
  restart(first: number): void {
    for (const sequence of this.running.splice(first).reverse()) {
      this.#blocks.release(sequence);
      sequence.status = "waiting";
      this.waiting.unshift(sequence);
    }
  }

  /**
   * What the next step needs from each pool (the main pool first), so that no sequence is preempted and the sequence
   * that has waited longest is admitted. Looks one token ahead, so that a pool that cannot grow is noticed before a
   * sequence has filled it.
   */
  demand(): PoolDemand[] {
    const { blockSize, maxSequences } = this.#limits;
    const numAhead = ({ length, maxLength }: Sequence) => Math.min(length + 1, maxLength - 1);
    const stats = this.#blocks.stats();
    const pools = [stats, ...stats.windows];
    const numTaken = pools.map(() => 0);
    for (const sequence of this.running) {
      const missing = this.#blocks.countMissing(sequence, numAhead(sequence));
      missing.forEach((numMissing, pool) => numTaken[pool]! += numMissing);
    }
    const [next] = this.waiting;
    let needs: ReturnType<BlockManager["countNeeds"]> = [];
    if (next !== undefined && this.running.length < maxSequences && !this.#awaitsSibling(next)) {
      needs = this.#blocks.countNeeds(next);
      needs.forEach(({ numBlocks }, pool) => numTaken[pool]! += numBlocks);
      const numNow = Math.ceil(next.length / blockSize);
      numTaken[0]! += Math.max(0, Math.ceil(numAhead(next) / blockSize) - numNow);
    }
    return pools.map(({ numFreeBlocks, numCachedBlocks }, pool) => {
      const numSpare = needs.length > 0 ? this.running.length : 0;
      const numFound = needs[pool]?.numFound ?? 0;
      return {
        numMissing: numTaken[pool]! + numSpare - numFreeBlocks - numCachedBlocks,
        numEvicted: numTaken[pool]! - numFound - numFreeBlocks,
      };
    });
  }

  /** Whether another sample of the same request is still computing the prompt that both will share. */
  #awaitsSibling(sequence: Sequence): boolean {
    const numShared = this.#blocks.numShareableTokens(sequence.numPromptTokens);
    return this.running.some((other) =>
      other.requestId === sequence.requestId && other.numComputed < numShared
    );
  }
}

/** Whether a sequence's prompt has been read and only its next token is missing. */
export function isDecoding({ length, numComputed, numPromptTokens }: Sequence): boolean {
  return length > numPromptTokens && length - numComputed === 1;
}

/** The sequences to choose a step from, and the resources to run it. */
interface StepSource {
  readonly limits: DecoderLimits;
  readonly queue: SequenceQueue;
  readonly blocks: BlockManager;
  /** Slots of recurrent states, if the model has any. */
  readonly slots: StateSlots | undefined;
}

interface StepWanted {
  /**
   * Whether the step is a prefill step, which leaves next tokens to decode steps that run while it is suspended. Next
   * tokens still get their blocks first, and count against the limits, so that no more sequences run than one step can
   * hold.
   */
  readonly isApart?: boolean;
  readonly mostPromptTokens: number;
}

/** Chooses the next tokens and prompt tokens of a step; `undefined` when there is nothing to do. */
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
  /** The rest of the step's budgets: prompt tokens, tokens, and rows of logits. */
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
    // The first sequence of a step always advances, even if no prompt tokens are left in the budget.
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
   * Shortens a chunk so that it ends with a block, where the state may be saved. The prompt's last chunk keeps its
   * length, and so does a chunk that would then be empty.
   */
  #endWithBlock({ numComputed, length }: Sequence, numTokens: number): number {
    const end = numComputed + numTokens;
    if (this.#source.slots === undefined || end === length) return numTokens;
    const { blockSize } = this.#source.limits;
    const wholeBlocks = Math.floor(end / blockSize) * blockSize - numComputed;
    return wholeBlocks > 0 ? wholeBlocks : numTokens;
  }

  /** Chooses where to save a sequence's state: after its prompt's last full block, if the chunk goes on beyond that. */
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
