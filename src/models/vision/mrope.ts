/**
 * Positions for a rotary embedding in sections (M-RoPE) as in Qwen2-VL (arXiv 2409.12191): text advances in all three
 * sections together; the tokens of an image share one time and have a height and a width in its grid; what follows
 * begins after the largest of them.
 *
 * @module
 */
import type { SectionPositions } from "../../engine/sequence.ts";

/** An image's tokens: row by row of its grid, frame by frame. */
export interface GridSpan {
  /** Its first token in the prompt. */
  readonly start: number;
  /** Tokens along time, height and width. */
  readonly grid: readonly [number, number, number];
}

/**
 * The positions of a prompt's tokens.
 *
 * @param spans the images in it, in order.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const { prompt: [time, height, width], offset } = mropePositions(6, [{ start: 1, grid: [1, 2, 2] }]);
 * assert.deepEqual([...time], [0, 1, 1, 1, 1, 3]);
 * assert.deepEqual([...height], [0, 1, 1, 2, 2, 3]);
 * assert.deepEqual([...width], [0, 1, 2, 1, 2, 3]);
 * assert.equal(offset, -2);
 * ```
 */
export function mropePositions(
  numTokens: number,
  spans: readonly GridSpan[],
): SectionPositions {
  const prompt = [0, 1, 2].map(() => new Int32Array(numTokens)) as [
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  const [time, height, width] = prompt;
  let token = 0;
  let position = 0;
  const addText = (end: number) => {
    for (; token < end; token++, position++) {
      for (const section of prompt) section[token] = position;
    }
  };
  for (const { start, grid: [frames, rows, columns] } of spans) {
    addText(start);
    for (let frame = 0; frame < frames; frame++) {
      for (let row = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++, token++) {
          time[token] = position + frame;
          height[token] = position + row;
          width[token] = position + column;
        }
      }
    }
    position += Math.max(frames, rows, columns);
  }
  addText(numTokens);
  return { prompt, offset: position - numTokens };
}
