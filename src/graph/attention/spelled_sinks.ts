/**
 * Sinks of a spelled-out attention, as PyTorch exports gpt-oss: the sink of each head is joined to its scores, like the
 * score of another key. Its weight is cut off after the softmax.
 *
 * @module
 */
import type { Search } from "./attention.ts";
import type { StoredTensor } from "../file/tensor.ts";
import type { Node } from "../file/proto.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { findBack, numbered } from "./traced_operand.ts";

/** Operators that may be between the joined logits and the softmax: casts, and a subtraction of each row's maximum. */
const SHIFTING = new Set(["Sub", "Cast", "Identity"]);

/** Sinks that are joined to the scores of keys. */
export interface JoinedSinks {
  /** The logits of keys. */
  readonly exponents: string;
  /** Whether the sinks' logits come before those of keys, instead of after them. */
  readonly areFirst: boolean;
  /** The sinks: f32 `[heads]`. */
  readonly tensor: StoredTensor;
}

/**
 * Finds the sinks of a softmax.
 *
 * @param areScores whether a tensor is computed from products of queries and keys.
 * @returns `undefined` if there are none, or if they are not one constant for each head.
 */
export function findSinks(
  softmax: Node,
  search: Search,
  areScores: (tensor: string) => boolean,
): JoinedSinks | undefined {
  const [exponents] = softmax.inputs as [string];
  const joined = findBack(search.index, exponents, SHIFTING, ({ opType }) => opType === "Concat");
  if (joined?.inputs.length !== 2 || !isShifted(search, joined.outputs[0]!, exponents)) {
    return undefined;
  }
  const areFirst = !areScores(joined.inputs[0]!);
  const [logits, sinks] = areFirst ? joined.inputs.toReversed() : joined.inputs;
  const values = areScores(logits!) && !areScores(sinks!) ? readSinks(search, sinks!) : undefined;
  if (values === undefined) return undefined;
  const tensor: StoredTensor = {
    ...{ name: `${softmax.outputs[0]}/sinks`, dtype: "float32", shape: [values.length] },
    data: { kind: "memory", bytes: new Uint8Array(Float32Array.from(values).buffer) },
  };
  return { exponents: logits!, areFirst, tensor };
}

/** Whether `to` is `from` plus one number for each row. A softmax ignores such a number. */
function isShifted({ probes }: Search, from: string, to: string): boolean {
  const run = probes.at(SHORT_LENGTHS[1]);
  const value = run.value(from);
  if (value === undefined) return false;
  const fed = numbered(value);
  const got = from === to ? fed : run.valueWith(to, new Map([[from, fed]]));
  const width = value.shape.at(-1)!;
  const shift = (i: number) => got!.data![i]! - fed.data![i]!;
  return got?.data?.length === fed.data!.length &&
    got.data.every((_, i) => shift(i) === shift(i - i % width));
}

/** Reads sinks `[…, heads, tokens, 1]` whose values depend on nothing but the head. */
function readSinks({ probes }: Search, name: string): Float64Array | undefined {
  const [values, ...others] = SHORT_LENGTHS.map((lengths) => {
    const value = probes.at(lengths).value(name);
    const [heads, tokens, width] = value?.shape.slice(-3) ?? [];
    if (width !== 1 || value?.data?.length !== heads! * tokens!) return undefined;
    const ofHeads = value.data.filter((_, i) => i % tokens! === 0);
    return value.data.every((x, i) => x === ofHeads[Math.floor(i / tokens!)]) ? ofHeads : undefined;
  });
  return others.every((other) => other?.join() === values?.join()) ? values : undefined;
}
