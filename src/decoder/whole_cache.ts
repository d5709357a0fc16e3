/**
 * The state that a whole decoder keeps for a sequence, as its graph's inputs define it.
 *
 * @module
 */
import { Tensor, type ValueInfo } from "../device/ort/ort.ts";

/** Says that a whole decoder cannot run a graph. */
export class UnsupportedGraphError extends Error {
  override readonly name = "UnsupportedGraphError";
}

/** Sizes of a cache of keys and values: `[batch, kvHeads, tokens, headDim]`. */
export interface HeadSizes {
  readonly kvHeads: number | undefined;
  readonly headDim: number | undefined;
}

/** Matches names of keys and values, but not of other state. */
const KEYS_OR_VALUES = /\.(key|value)$|^past_(key|value)s?[._]\d+$/;

/**
 * Replaces symbolic head sizes of a cache input (`kv_cache_dim`) by numbers.
 *
 * @throws {UnsupportedGraphError} when a size is unknown.
 */
export function withHeadSizes(input: ValueInfo, sizes: HeadSizes | undefined): ValueInfo {
  const { name, shape } = input;
  if (shape.length !== 4 || !KEYS_OR_VALUES.test(name)) return input;
  const [batch, heads, tokens, dim] = shape as [Size, Size, Size, Size];
  const known = (symbol: Size, size: number | undefined) => {
    if (typeof symbol === "number") return symbol;
    if (size !== undefined) return size;
    throw new UnsupportedGraphError(
      `The cache input "${name}" leaves its size "${symbol}" open, and config.json does not give it.`,
    );
  };
  return {
    ...input,
    shape: [batch, known(heads, sizes?.kvHeads), tokens, known(dim, sizes?.headDim)],
  };
}

type Size = ValueInfo["shape"][number];

/** The state of a sequence that has not begun: no keys yet, and zero for other state. */
export function emptyState({ name, type, shape }: ValueInfo): Tensor {
  const dims = shape.map((size, axis) =>
    typeof size === "number" ? size : axis === 0 || size.includes("batch") ? 1 : 0
  );
  const count = dims.reduce((product, size) => product * size, 1);
  if (type === "float32") return new Tensor(type, new Float32Array(count), dims);
  if (type === "float16") return new Tensor(type, new Uint16Array(count), dims);
  throw new UnsupportedGraphError(
    `The cache input "${name}" has element type ${type}; wanted float32 or float16.`,
  );
}
