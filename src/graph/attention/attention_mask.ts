/**
 * Proves that a mask is causal, with or without a local window, by evaluating it for chosen lengths.
 *
 * @module
 */
import type { Value } from "../evaluate/value.ts";
import { type Lengths, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";

/** Scores below this have no weight after the softmax. Exporters hide keys with -10000, -65504, -3.4e38 or -inf. */
export const HIDDEN_SCORE = -9000;

/** 1 for each key that a token of a run may attend to, otherwise 0: `[numTokens, total]`, row-major. */
export type Visibility = Uint8Array;

/** Computes the mask of a run with these lengths; `undefined` if partial evaluation cannot compute it. */
export type MaskReader = (lengths: Lengths) => Visibility | undefined;

/**
 * Converts a boolean or additive mask.
 *
 * @param mask broadcasts to `[1, heads, numTokens, total]`; bool, or numbers that are added to the scores.
 * @param of the attention, for messages.
 * @throws {Refusal} when the mask differs from head to head, or adds numbers to the scores of visible keys.
 */
export function readVisibility(
  mask: Value | undefined,
  { pastLength, numTokens }: Lengths,
  of: string,
): Visibility | undefined {
  const total = pastLength + numTokens;
  if (mask?.data === undefined) return undefined;
  const [rows, columns] = [mask.shape.at(-2) ?? 1, mask.shape.at(-1) ?? 1];
  if ((rows !== 1 && rows !== numTokens) || (columns !== 1 && columns !== total)) return undefined;
  const visible = new Uint8Array(numTokens * total);
  const planes = mask.data.length / (rows * columns);
  for (let plane = 0; plane < planes; plane++) {
    for (let i = 0; i < visible.length; i++) {
      const row = rows === 1 ? 0 : Math.floor(i / total);
      const column = columns === 1 ? 0 : i % total;
      const element = mask.data[(plane * rows + row) * columns + column]!;
      const seen = mask.dtype === "bool" ? element !== 0 : element > HIDDEN_SCORE;
      if (mask.dtype !== "bool" && seen && element !== 0) {
        throw new Refusal(
          `The mask of ${of} adds ${element} to a score, like a bias by distance (ALiBi).`,
        );
      }
      if (plane > 0 && visible[i] !== Number(seen)) {
        throw new Refusal(`The mask of ${of} differs from head to head.`);
      }
      visible[i] = Number(seen);
    }
  }
  return visible;
}

/** The causal mask. */
export function computeCausalMask({ pastLength, numTokens }: Lengths): Visibility {
  const total = pastLength + numTokens;
  return Uint8Array.from(
    { length: numTokens * total },
    (_, i) => i % total <= pastLength + Math.floor(i / total) ? 1 : 0,
  );
}

/** The proven properties of a mask. */
export interface ProvenMask {
  /** Number of keys that a query sees, including its own; `undefined` if it sees all preceding keys. */
  readonly localWindow: number | undefined;
  /** Number of positions for which this was verified. */
  readonly maxPositions: number;
}

/** The first key that a row sees; -1 unless it sees a contiguous run of keys that ends with its own. */
function firstSeen(visible: Visibility, row: number, { pastLength, numTokens }: Lengths): number {
  const total = pastLength + numTokens;
  const own = pastLength + row;
  const keys = visible.subarray(row * total, (row + 1) * total);
  const first = keys.indexOf(1);
  const isRun = keys.every((seen, key) => (seen === 1) === (key >= first && key <= own));
  return first < 0 || !isRun ? -1 : first;
}

/**
 * The smallest window of all rows of a run; Infinity if every row sees all keys before it.
 *
 * @throws {Refusal} when a row does not see a contiguous run of keys that ends with its own.
 */
function findWindow(visible: Visibility, lengths: Lengths, of: string): number {
  let window = Infinity;
  for (let row = 0; row < lengths.numTokens; row++) {
    const own = lengths.pastLength + row;
    const first = firstSeen(visible, row, lengths);
    if (first < 0) {
      throw new Refusal(
        `${of} is not causal: with ${lengths.pastLength} cached and ${lengths.numTokens} new tokens, ` +
          `token ${row} does not see exactly the keys up to its own.`,
      );
    }
    if (first > 0) window = Math.min(window, own - first + 1);
  }
  return window;
}

function isWindow(visible: Visibility, lengths: Lengths, window: number): boolean {
  for (let row = 0; row < lengths.numTokens; row++) {
    const own = lengths.pastLength + row;
    if (firstSeen(visible, row, lengths) !== Math.max(0, own - window + 1)) return false;
  }
  return true;
}

/** The greatest length, up to `limit`, for which the last token's row of the mask is known. */
function longestKnown(read: MaskReader, limit: number): number {
  const isKnown = (total: number) => read({ pastLength: total - 1, numTokens: 1 }) !== undefined;
  if (isKnown(limit)) return limit;
  let [known, unknown] = [0, limit];
  while (unknown - known > 1) {
    const middle = Math.floor((known + unknown) / 2);
    if (isKnown(middle)) known = middle;
    else unknown = middle;
  }
  return known;
}

/**
 * Proves that a mask is causal, and finds its window.
 *
 * The mask must be known for a prompt, and for single tokens after it. For a prompt in chunks it may be unknown,
 * because some graphs cannot run one.
 *
 * @param contextLength tokens of the longest sequence that will be run.
 * @param of the attention, for messages.
 * @throws {Refusal} when the mask cannot be computed, or is not causal.
 */
export function proveMask(read: MaskReader, contextLength: number, of: string): ProvenMask {
  const maxPositions = longestKnown(read, contextLength);
  const prompt = SHORT_LENGTHS[0];
  if (maxPositions < prompt.numTokens || read(prompt) === undefined) {
    throw new Refusal(`The mask of ${of} cannot be computed by partial evaluation.`);
  }
  const looked = [...SHORT_LENGTHS, { pastLength: maxPositions - 1, numTokens: 1 }];
  const seen = looked.flatMap((lengths) => {
    const visible = read(lengths);
    return visible ? [{ lengths, visible }] : [];
  });
  const window = Math.min(
    ...seen.map(({ lengths, visible }) => findWindow(visible, lengths, of)),
  );
  if (window < maxPositions) {
    // A prompt chunk that begins inside the first window and ends after it.
    const lengths = { pastLength: Math.max(0, window - 2), numTokens: 3 };
    const visible = window + 1 <= maxPositions ? read(lengths) : undefined;
    if (visible) seen.push({ lengths, visible });
  }
  for (const { lengths, visible } of seen) {
    if (isWindow(visible, lengths, window)) continue;
    throw new Refusal(
      `The mask of ${of} is causal, but not with one window: with ${lengths.pastLength} cached and ` +
        `${lengths.numTokens} new tokens it does not fit a window of ${window}.`,
    );
  }
  return { localWindow: Number.isFinite(window) ? window : undefined, maxPositions };
}
