/**
 * Invariants of sequences, steps and blocks at any time.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { DecoderLimits, SampledToken, StepBatch } from "../../../src/decoder/decoder.ts";
import type { GenerationRequest, Sequence } from "../../../src/engine/sequence.ts";
import type { SchedulerStats } from "../../../src/engine/scheduler.ts";
import { countMostWindowBlocks } from "../../../src/decoder/paged_limits.ts";
import type { ScheduledStep } from "../../../src/engine/step.ts";
import {
  GREEDY,
  makeScore,
  makeShift,
  nextToken,
  type SimulatedDecoder,
} from "./simulated_decoder.ts";

const NO_ADJUSTMENTS = {
  length: 1,
  completionCounts: new Uint32Array(1),
  inContext: new Uint32Array(1),
  bias: new Float32Array(1),
};

/** A sequence that has not ended, and its observed state. */
export interface Tracked {
  readonly sequence: Sequence;
  readonly request: GenerationRequest;
  readonly seed: number;
  /** Number of the sequence's tokens computed since it was last admitted; `undefined` while it waits. */
  numSeen: number | undefined;
  /** Whether the sequence got a token since it was last admitted. */
  decodes: boolean;
  /** Scores of the prompt's tokens. */
  readonly scores: SampledToken[];
}

/** Checks sequences only by their block tables and the decoder's results. */
export class Invariants {
  readonly #limits: DecoderLimits;
  /** Live sequences by id, in order of arrival. */
  readonly #live: ReadonlyMap<number, Tracked>;
  /** The current number of blocks of each pool: the main one, then those of windows. */
  readonly numBlocks: number[];
  /** Ended sequences whose suspended step still writes to their blocks. */
  readonly leaving = new Set<Sequence>();

  constructor(limits: DecoderLimits, live: ReadonlyMap<number, Tracked>) {
    this.#limits = limits;
    this.#live = live;
    this.numBlocks = [limits, ...limits.windows ?? []].map(({ numBlocks }) => numBlocks);
  }

  /** Asserts that the running sequences are the oldest ones: none was overtaken. */
  checkQueue(stats: SchedulerStats): void {
    let hasWaiting = false;
    let numRunning = 0;
    for (const tracked of this.#live.values()) {
      if (tracked.sequence.status === "waiting") {
        hasWaiting = true;
        tracked.numSeen = undefined;
        tracked.decodes = false;
      } else {
        assert(!hasWaiting, "a sequence runs while an older one waits");
        numRunning++;
      }
    }
    assert.equal(stats.numRunning, numRunning);
    assert.equal(stats.numRunning + stats.numWaiting, this.#live.size);
    assert(numRunning <= this.#limits.maxSequences);
  }

  /**
   * Asserts that the step is within its budget, that the oldest sequence advances, and that next tokens come before
   * prompts. A prefill step has no next tokens; every other step has those of all sequences that wait for one.
   */
  checkStep({ scheduled, numTokens, isApart }: ScheduledStep, suspended?: ScheduledStep): void {
    const oldest: Tracked | undefined = this.#live.values().next().value;
    if (!isApart && !suspended) {
      assert.equal(scheduled[0]?.sequence, oldest?.sequence, "the oldest does not advance");
    }
    assert(numTokens <= this.#limits.maxBatchTokens);
    assert.equal(scheduled.reduce((sum, entry) => sum + entry.numTokens, 0), numTokens);
    const numRows = scheduled.reduce(
      (sum, { scored = [], samples }) => sum + scored.length + (samples ? 1 : 0),
      0,
    );
    assert(numRows <= this.#limits.maxSequences, "more rows of logits than there is room for");
    const inStep = new Set(scheduled.map(({ sequence }) => sequence.id));
    assert.equal(inStep.size, scheduled.length, "a sequence occurs twice in a step");

    let hasPrompt = false;
    for (const { sequence, numTokens } of scheduled) {
      const tracked = this.#live.get(sequence.id);
      assert(tracked !== undefined, "a sequence that has ended is scheduled");
      assert(numTokens > 0);
      // Not checked: a prompt that is scored, or that stops where its state is saved, may come before next tokens of
      // younger sequences.
      if (sequence.scoring !== undefined || this.#limits.numStateSlots) continue;
      if (!tracked.decodes) hasPrompt = true;
      else assert(!hasPrompt, "a prompt comes before a next token");
    }
    for (const { sequence, decodes } of this.#live.values()) {
      if (sequence.status === "running" && decodes) assert.equal(inStep.has(sequence.id), !isApart);
    }
    for (const { sequence: { id } } of suspended?.scheduled ?? []) {
      assert(!inStep.has(id), "a sequence is in two steps");
    }
  }

  /** All sequences that may hold blocks. */
  #listHolders(): Sequence[] {
    return [...this.#live.values().map(({ sequence }) => sequence), ...this.leaving];
  }

  /**
   * Asserts that every token is computed once and in order, sees only its own sequence, and is written to blocks that
   * no other sequence reads.
   */
  checkBatch(step: ScheduledStep, batch: StepBatch, decoder: SimulatedDecoder): void {
    assert.equal(batch.numTokens, step.numTokens);
    assert.equal(batch.sequences.length, step.scheduled.length);
    const { blockSize, sharesBlocks } = this.#limits;
    for (const [row, { sequence, numTokens, samples }] of step.scheduled.entries()) {
      const tracked = this.#live.get(sequence.id);
      // The sequence was cancelled while the step was suspended.
      if (tracked === undefined) continue;
      const first = batch.queryStarts[row]!;
      const start = batch.positions[first]!;
      if (tracked.numSeen === undefined) {
        assert(start === 0 || sharesBlocks, "a prefix hit where blocks cannot be shared");
      } else assert.equal(start, tracked.numSeen, "a token is skipped or computed again");
      tracked.numSeen = start + numTokens;

      assert.equal(batch.queryStarts[row + 1], first + numTokens);
      for (let i = 0; i < numTokens; i++) {
        assert.equal(batch.positions[first + i], start + i);
        assert.equal(batch.tokenIds[first + i], sequence.tokens.at(start + i));
      }
      assert.equal(batch.kvLengths[row], tracked.numSeen);
      const { longFrom = Infinity } = this.#limits;
      assert.equal(makeShift(batch, first), sequence.length > longFrom ? longFrom : 0);
      assert.equal(batch.sequences[row]?.sequenceId, sequence.id);
      assert.equal(batch.sequences[row]?.sample !== undefined, samples);
      assert.equal(samples, tracked.numSeen === sequence.length);
      const seen = [...sequence.tokens.view(0, tracked.numSeen)];
      assert.deepEqual(decoder.read(batch, row), seen);
      for (const blockId of sequence.blockIds.view(Math.floor(start / blockSize))) {
        assert.equal(this.#countHolders(blockId), 1, "a shared block is written");
      }
      for (const [i, { blockIds }] of sequence.windowTables.entries()) {
        for (const blockId of blockIds.view(Math.floor(start / blockSize))) {
          assert.equal(this.#countWindowHolders(i, blockId), 1, "a shared block is written");
        }
      }
    }
  }

  /** Asserts that the used blocks are exactly those in the tables, and that no two blocks contain the same prefix. */
  checkBlocks(stats: SchedulerStats): void {
    const { blockSize, sharesBlocks } = this.#limits;
    const held = new Set<number>();
    /** Blocks, by the previous block's id and the block's tokens. */
    const blockOfPrefix = new Map<string, number>();
    for (const sequence of this.#listHolders()) {
      const { blockIds } = sequence;
      if (sequence.status === "waiting") assert.equal(blockIds.length, 0);
      assert(blockIds.length * blockSize >= sequence.numComputed);
      assert.equal(
        new Set(blockIds.view()).size,
        blockIds.length,
        "a block occurs twice in a table",
      );
      for (const blockId of blockIds.view()) held.add(blockId);
      if (!sharesBlocks) continue;
      let before = `in ${sequence.cacheScope}`;
      for (let i = 0; (i + 1) * blockSize <= sequence.numComputed; i++) {
        const tokens = sequence.tokens.view(i * blockSize, (i + 1) * blockSize);
        const prefix = `${before}|${tokens.join()}`;
        const blockId = blockIds.at(i);
        const known = blockOfPrefix.get(prefix) ?? blockId;
        if (known !== blockId) assert.fail("two blocks hold the same prefix");
        blockOfPrefix.set(prefix, blockId);
        before = String(blockId);
      }
    }
    assert.equal(
      new Set(blockOfPrefix.values()).size,
      blockOfPrefix.size,
      "a block has two prefixes",
    );
    const ofWindows = stats.windows.map((_, i) => this.#checkWindow(i));
    for (const [pool, counts] of [stats, ...stats.windows].entries()) {
      const { numUsedBlocks, numCachedBlocks, numFreeBlocks } = counts;
      const { size } = [held, ...ofWindows][pool]!;
      assert.equal(numUsedBlocks, size, "a block is leaked, or freed while in use");
      assert.equal(numUsedBlocks + numCachedBlocks + numFreeBlocks, this.numBlocks[pool]);
      assert(numCachedBlocks >= 0 && numFreeBlocks >= 0);
    }
  }

  /** Asserts that sequences hold exactly the blocks of their window. @returns these blocks. */
  #checkWindow(index: number): Set<number> {
    const { blockSize, maxBatchTokens, windows } = this.#limits;
    const { window } = windows![index]!;
    const held = new Set<number>();
    for (const sequence of this.#listHolders()) {
      const { blockIds, first } = sequence.windowTables[index] ?? { blockIds: undefined, first: 0 };
      const own = [...blockIds?.view(first) ?? []];
      if (sequence.status === "waiting") assert.equal(own.length, 0);
      const firstSeen = Math.max(0, sequence.numComputed - window + 1);
      if (own.length > 0) assert.equal(first, Math.floor(firstSeen / blockSize));
      const most = countMostWindowBlocks({ window, blockSize, maxBatchTokens });
      assert(own.length <= most, "more than a window is held");
      assert.equal(new Set(own).size, own.length, "a block occurs twice in a window");
      for (const blockId of own) held.add(blockId);
    }
    return held;
  }

  /** Asserts that a prompt's requested scores are complete and in order before the first sampled token. */
  checkScores({ request, seed, scores }: Tracked): void {
    const tokens = [...request.promptTokens];
    // Only the first sample is scored.
    const numWanted = request.promptLogprobs === undefined || seed > 0 ? 0 : tokens.length - 1;
    const wanted = tokens.slice(1, numWanted + 1).map((tokenId, i) =>
      makeScore(tokens.slice(0, i + 1), {
        adjustments: { ...NO_ADJUSTMENTS, tokenIds: Uint32Array.of(tokenId) },
      })
    );
    assert.deepEqual(scores, wanted);
  }

  /** Asserts that the completion is the one that the request gets alone. */
  checkCompletion({ sequence, request, seed }: Tracked): void {
    const tokens = [...request.promptTokens];
    const numCompletionTokens = sequence.length - sequence.numPromptTokens;
    for (let tokenIndex = 0; tokenIndex < numCompletionTokens; tokenIndex++) {
      tokens.push(nextToken(tokens, { params: { ...GREEDY, seed }, tokenIndex }).tokenId);
    }
    assert.deepEqual([...sequence.tokens.view()], tokens);
    assert(numCompletionTokens <= (request.maxTokens ?? Infinity));
  }

  #countWindowHolders(index: number, blockId: number): number {
    return this.#listHolders().filter(({ windowTables }) => {
      const table = windowTables[index];
      return table?.blockIds.view(table.first).includes(blockId) ?? false;
    }).length;
  }

  #countHolders(blockId: number): number {
    let numHolders = 0;
    for (const { blockIds } of this.#listHolders()) {
      if (blockIds.view().includes(blockId)) numHolders++;
    }
    return numHolders;
  }
}
