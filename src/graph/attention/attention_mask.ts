/**
 * Proves that a mask is causal, with or without a local window, by evaluating it for chosen lengths.
 *
 * @module
 */
import type { Value } from "../evaluate/value.ts";
import { type Lengths, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";

/** A mask hides a key by adding a number below this to its score. Exporters add -10000, -65504, -3.4e38 or -inf. */
const HIDDEN_SCORE = -9000;

/** 1 for each key that a token of a run may attend to, otherwise 0: `[numTokens, total]`, row-major. */
export type Visibility = Uint8Array;

/** Maximum relative error of a bias by distance, because a table in half precision is rounded. */
const BIAS_ERROR = 1e-3;

/** Computes the mask of a run with these lengths; `undefined` if partial evaluation cannot compute it. */
export type MaskReader = (lengths: Lengths) => Visibility | undefined;

/** Numbers that are added to the scores of a run. */
interface Terms {
  /** 1, or the number of heads if their terms differ. */
  readonly planes: number;
  at(plane: number, row: number, column: number): number;
}

/**
 * Reads a boolean or additive mask.
 *
 * @param mask broadcasts to `[1, heads, numTokens, total]`; bool, or numbers that are added to the scores.
 */
function readTerms(
  mask: Value | undefined,
  { pastLength, numTokens }: Lengths,
): Terms | undefined {
  const total = pastLength + numTokens;
  if (mask?.data === undefined) return undefined;
  const { data, dtype, shape } = mask;
  const [rows, columns] = [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
  if ((rows !== 1 && rows !== numTokens) || (columns !== 1 && columns !== total)) return undefined;
  return {
    planes: data.length / (rows * columns),
    at(plane, row, column) {
      const from = (plane * rows + (rows === 1 ? 0 : row)) * columns;
      const element = data[from + (columns === 1 ? 0 : column)]!;
      if (dtype !== "bool") return element;
      return element === 0 ? -Infinity : 0;
    },
  };
}

/**
 * Finds the slopes of a bias by distance (ALiBi), which a mask adds to the scores: from one key to the next, the score
 * of a head grows by its slope.
 *
 * @param mask the same as that of {@linkcode readVisibility}, which checks that the mask is such a bias.
 * @returns the slope of each head, or one for all heads; `undefined` if all are zero or the mask is unknown.
 * @see {@link https://arxiv.org/abs/2108.12409 | ALiBi}
 */
export function findSlopes(mask: Value | undefined, lengths: Lengths): number[] | undefined {
  const terms = readTerms(mask, lengths);
  if (terms === undefined) return undefined;
  const row = lengths.numTokens - 1;
  const own = lengths.pastLength + row;
  const slopes = Array.from({ length: terms.planes }, (_, plane) => {
    const slope = terms.at(plane, row, own) - terms.at(plane, row, own - 1);
    return Math.abs(slope) < -HIDDEN_SCORE ? slope : 0;
  });
  return slopes.some((slope) => slope !== 0) ? slopes : undefined;
}

/**
 * Converts a boolean or additive mask.
 *
 * @param mask broadcasts to `[1, heads, numTokens, total]`; bool, or numbers that are added to the scores.
 * @param of names the attention in messages.
 * @param slopes of the bias by distance that the mask contains; see {@linkcode findSlopes}.
 * @throws {Refusal} when the mask hides keys of some heads only, or adds other numbers to the scores of visible keys.
 */
export function readVisibility(
  mask: Value | undefined,
  lengths: Lengths,
  of: string,
  slopes: readonly number[] = [],
): Visibility | undefined {
  const { pastLength, numTokens } = lengths;
  const total = pastLength + numTokens;
  const terms = readTerms(mask, lengths);
  if (terms === undefined) return undefined;
  const visible = new Uint8Array(numTokens * total);
  for (let plane = 0; plane < terms.planes; plane++) {
    const slope = slopes[plane] ?? 0;
    for (let i = 0; i < visible.length; i++) {
      const [row, column] = [Math.floor(i / total), i % total];
      const term = terms.at(plane, row, column);
      const own = pastLength + row;
      // A bias is compared with that of the query's own key, because the softmax ignores what is added to a whole row.
      const base = slope === 0 ? 0 : terms.at(plane, row, own);
      const rest = term - base - slope * (column - own);
      const seen = rest > HIDDEN_SCORE;
      const error = slope === 0 ? 0 : BIAS_ERROR * Math.max(Math.abs(term), Math.abs(base));
      // Keys after the query are not checked: a bias may be symmetric if something else hides those keys.
      const matters = seen && (slope === 0 || column <= own);
      if (matters && Math.abs(rest) > error) {
        throw new Refusal(
          slope === 0
            ? `The mask of ${of} adds ${term} to a score, like a relative position bias.`
            : `The mask of ${of} adds a bias to the scores that is not in proportion to the distance ` +
              `of keys, unlike ALiBi.`,
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
  /** Number of positions for which these properties were verified. */
  readonly maxPositions: number;
  /** The slope of each head, or one for all heads, if the mask also contains a bias by distance. */
  readonly slopes?: readonly number[] | undefined;
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
 * The mask must be known for a prompt, and for single tokens after it. For the later chunks of a prompt it may be
 * unknown, because some graphs cannot run them.
 *
 * @param contextLength tokens of the longest sequence that will be run.
 * @param of names the attention in messages.
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
