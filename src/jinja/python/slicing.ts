/**
 * Python's `value[index]` and `value[start:stop:step]`.
 *
 * @module
 */
import { charge } from "../meter.ts";
import { raise } from "../template_error.ts";
import { Dict } from "./dict.ts";
import { requireLength } from "./iterate.ts";
import { asInt, requireIndex } from "./numbers.ts";
import { isWide, sliceChars, splitChars } from "./text.ts";
import { Bytes, Markup, PyObject, Range, toItems, toText, Tuple, type Value } from "./values.ts";

export class Slice extends PyObject {
  readonly typeName = "slice";
  readonly start: Value;
  readonly stop: Value;
  readonly step: Value;

  constructor(start: Value, stop: Value, step: Value) {
    super();
    this.start = start;
    this.stop = stop;
    this.step = step;
  }
}

/** Python's `value[key]`; `undefined` where it raises a LookupError or a TypeError. */
export function getItem(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) return value.get(key);
  if (key instanceof Slice) return getSlice(value, key);
  const index = asInt(key);
  if (index === undefined) return undefined;
  return itemAt(value, Number(index));
}

function itemAt(value: Value, index: number): Value | undefined {
  const items = toItems(value);
  if (items !== undefined) return items.at(index);
  const text = toText(value);
  if (text !== undefined) {
    const char = isWide(text) ? splitChars(text).at(index) : text.at(index);
    return char !== undefined && value instanceof Markup ? new Markup(char) : char;
  }
  if (value instanceof Range) {
    const at = index < 0 ? index + value.length : index;
    return at >= 0 && at < value.length ? value.start + at * value.step : undefined;
  }
  return value instanceof Bytes ? value.bytes.at(index) : undefined;
}

/** The bounds of a slice in a sequence: Python's `slice.indices`. */
function resolveBounds({ start, stop, step }: Slice, length: number) {
  const stride = step === null ? 1 : requireIndex(step);
  if (stride === 0) raise("ValueError", "slice step cannot be zero");
  const [lowest, highest] = stride > 0 ? [0, length] : [-1, length - 1];
  const clamp = (bound: Value, otherwise: number) => {
    if (bound === null) return otherwise;
    const at = requireIndex(bound);
    return Math.min(highest, Math.max(lowest, at < 0 ? at + length : at));
  };
  return {
    from: clamp(start, stride > 0 ? lowest : highest),
    to: clamp(stop, stride > 0 ? highest : lowest),
    stride,
  };
}

function getSlice(value: Value, slice: Slice): Value | undefined {
  const text = toText(value);
  const items = toItems(value);
  if (text === undefined && items === undefined && !(value instanceof Range)) return undefined;
  const { from, to, stride } = resolveBounds(slice, requireLength(value));
  if (text !== undefined) {
    const cut = stride === 1
      ? sliceChars(text, from, to)
      : pick(splitChars(text), from, to, stride).join("");
    return value instanceof Markup ? new Markup(cut) : cut;
  }
  if (value instanceof Range) {
    const { start, step } = value;
    return new Range(start + from * step, start + to * step, step * stride);
  }
  const picked = pick(items!, from, to, stride);
  return value instanceof Tuple ? new Tuple(picked) : picked;
}

function pick<T>(items: readonly T[], from: number, to: number, stride: number): T[] {
  charge(Math.abs(to - from) / Math.abs(stride));
  if (stride === 1) return items.slice(from, Math.max(from, to));
  const picked: T[] = [];
  for (let i = from; stride > 0 ? i < to : i > to; i += stride) picked.push(items[i]!);
  return picked;
}
