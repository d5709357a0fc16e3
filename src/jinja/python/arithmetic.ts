/**
 * Python's operators on numbers and sequences.
 *
 * @module
 */
import { charge, requireShort } from "../meter.ts";
import {
  Float,
  getTypeName,
  Markup,
  raise,
  Range,
  toItems,
  toText,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";
import { escape } from "./repr.ts";
import { asInt, asNumber, type Int, requireIndex, toInt } from "./numbers.ts";
import { formatPercent } from "./string_format.ts";
import { repeatText } from "./text.ts";

export type BinaryOperator = "+" | "-" | "*" | "/" | "//" | "%" | "**";

/** Longest list. */
const MAX_ITEMS = 1_000_000;

/** Applies an operator such as `a + b`. */
export function applyBinary(operator: BinaryOperator, a: Value, b: Value): Value {
  if (operator === "+" && typeof a === "string" && typeof b === "string") return addTexts(a, b);
  if (typeof a === "number" && typeof b === "number") {
    const fast = operator === "+"
      ? a + b
      : operator === "-"
      ? a - b
      : operator === "*"
      ? a * b
      : NaN;
    if (Number.isSafeInteger(fast)) return fast === 0 ? 0 : fast;
  }
  for (const value of [a, b]) {
    if (value instanceof Undefined && !(operator === "%" && toText(a) !== undefined)) value.fail();
  }
  const [intA, intB] = [asInt(a), asInt(b)];
  if (intA !== undefined && intB !== undefined) return applyInts(operator, intA, intB);
  const [numberA, numberB] = [asNumber(a), asNumber(b)];
  if (numberA !== undefined && numberB !== undefined) {
    return new Float(applyFloats(operator, numberA, numberB));
  }
  return applySequences(operator, a, b) ?? refuse(operator, a, b);
}

function refuse(operator: BinaryOperator, a: Value, b: Value): never {
  const name = operator === "**" ? "** or pow()" : operator;
  return raise(
    "TypeError",
    `unsupported operand type(s) for ${name}: '${getTypeName(a)}' and '${getTypeName(b)}'`,
  );
}

function applyInts(operator: BinaryOperator, a: Int, b: Int): Value {
  if (operator === "/") {
    if (Number(b) === 0) raise("ZeroDivisionError", "division by zero");
    return new Float(divideInts(a, b));
  }
  if (operator === "**") return raiseToPower(a, b);
  const [bigA, bigB] = [BigInt(a), BigInt(b)];
  if (operator === "+") return toInt(bigA + bigB);
  if (operator === "-") return toInt(bigA - bigB);
  if (operator === "*") return toInt(bigA * bigB);
  if (bigB === 0n) raise("ZeroDivisionError", "integer division or modulo by zero");
  const rest = bigA % bigB;
  // Python rounds down, JavaScript towards zero.
  const isBelow = rest !== 0n && (rest < 0n) !== (bigB < 0n);
  if (operator === "%") return toInt(isBelow ? rest + bigB : rest);
  return toInt(bigA / bigB - (isBelow ? 1n : 0n));
}

/** Divides two ints, and rounds the result once. */
function divideInts(a: Int, b: Int): number {
  if (typeof a === "number" && typeof b === "number") return a / b;
  const [top, bottom] = [a, b].map((each) => BigInt(each < 0 ? -BigInt(each) : each)) as [
    bigint,
    bigint,
  ];
  const numBits = (value: bigint) => value.toString(16).length * 4;
  // The quotient gets more bits than a float has. Its last bit is set if there is a remainder: that affects only ties.
  const shift = Math.max(0, numBits(bottom) - numBits(top) + 72);
  const shifted = top << BigInt(shift);
  const quotient = shifted / bottom;
  const exact = quotient * bottom === shifted ? quotient : quotient | 1n;
  // In two steps, as 2 ** shift may be too large for a number.
  const size = Number(exact) / 2 ** Math.min(shift, 1000) / 2 ** Math.max(0, shift - 1000);
  if (!Number.isFinite(size)) {
    raise("OverflowError", "integer division result too large for a float");
  }
  return (a < 0) === (b < 0) ? size : -size;
}

function raiseToPower(a: Int, b: Int): Value {
  if (Number(b) < 0) {
    if (Number(a) === 0) raise("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    return new Float(Number(a) ** Number(b));
  }
  const numBits = BigInt(a).toString(2).length;
  if (numBits > 2 && numBits * Number(b) > 1 << 17) {
    raise("MemoryError", "it computes an integer that is too large");
  }
  return toInt(BigInt(a) ** BigInt(b));
}

function applyFloats(operator: BinaryOperator, a: number, b: number): number {
  if (operator === "+") return a + b;
  if (operator === "-") return a - b;
  if (operator === "*") return a * b;
  if (operator === "**") {
    if (a === 0 && b < 0) raise("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    if (a < 0 && !Number.isInteger(b) && Number.isFinite(a) && Number.isFinite(b)) {
      raise("ValueError", "complex numbers are not served");
    }
    const power = a ** b;
    if (!Number.isFinite(power) && Number.isFinite(a) && Number.isFinite(b)) {
      raise("OverflowError", "(34, 'Numerical result out of range')");
    }
    return power;
  }
  if (b === 0) {
    raise("ZeroDivisionError", operator === "/" ? "float division by zero" : "float modulo");
  }
  if (operator === "/") return a / b;
  const rest = a % b;
  const modulo = rest !== 0 && (rest < 0) !== (b < 0) ? rest + b : rest;
  if (operator === "%") return modulo === 0 ? (b < 0 ? -0 : 0) : modulo;
  const quotient = (a - modulo) / b;
  const floor = Math.floor(quotient);
  if (quotient === 0) return (a < 0 || Object.is(a, -0)) === (b < 0) ? 0 : -0;
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

function applySequences(operator: BinaryOperator, a: Value, b: Value): Value | undefined {
  if (operator === "%" && toText(a) !== undefined) return formatPercent(a as string | Markup, b);
  if (operator === "*") return repeat(a, b) ?? repeat(b, a);
  if (operator !== "+") return undefined;
  const [textA, textB] = [toText(a), toText(b)];
  if (textA !== undefined && textB !== undefined) return addMarkup(a, b);
  const [itemsA, itemsB] = [toItems(a), toItems(b)];
  if (itemsA === undefined || itemsB === undefined) {
    if (textA !== undefined) {
      raise("TypeError", `can only concatenate str (not "${getTypeName(b)}") to str`);
    }
    return undefined;
  }
  if (Array.isArray(a) !== Array.isArray(b)) return undefined;
  requireFew(itemsA.length + itemsB.length);
  const items = [...itemsA, ...itemsB];
  return Array.isArray(a) ? items : new Tuple(items);
}

/** Concatenates two texts. That copies nothing: V8 keeps both halves until the result is read. */
export function addTexts(a: string, b: string): string {
  charge(1 + Math.min(a.length, b.length) / 8);
  requireShort(a.length + b.length);
  return a + b;
}

/** Concatenates two texts to Markup. The text that is not Markup is escaped. */
function addMarkup(a: Value, b: Value): Value {
  return new Markup(addTexts(escape(a), escape(b)));
}

function repeat(sequence: Value, count: Value): Value | undefined {
  if (asInt(count) === undefined) {
    const isSequence = toText(sequence) !== undefined || toItems(sequence) !== undefined;
    if (isSequence && asNumber(count) !== undefined) {
      raise("TypeError", "can't multiply sequence by non-int of type 'float'");
    }
    return undefined;
  }
  const times = Math.max(0, requireIndex(count));
  if (typeof sequence === "string") return repeatText(sequence, times);
  if (sequence instanceof Markup) return new Markup(repeatText(sequence.text, times));
  const items = toItems(sequence);
  if (items === undefined) return undefined;
  requireFew(items.length * times);
  const repeated = Array.from({ length: items.length * times }, (_, i) => items[i % items.length]!);
  return Array.isArray(sequence) ? repeated : new Tuple(repeated);
}

/** @throws {TemplateError} when a list is too long. */
export function requireFew(numItems: number): void {
  charge(numItems);
  if (numItems > MAX_ITEMS) {
    raise("MemoryError", `it makes a list of more than ${MAX_ITEMS} items`);
  }
}

/** Python's `-a`. */
export function negate(value: Value): Value {
  if (value instanceof Float) return new Float(-value.value);
  const int = asInt(value);
  if (int !== undefined) return toInt(-BigInt(int));
  if (value instanceof Undefined) value.fail();
  return raise("TypeError", `bad operand type for unary -: '${getTypeName(value)}'`);
}

/** Python's `+a`. */
export function posit(value: Value): Value {
  if (value instanceof Float) return value;
  const int = asInt(value);
  if (int !== undefined) return int;
  if (value instanceof Undefined) value.fail();
  return raise("TypeError", `bad operand type for unary +: '${getTypeName(value)}'`);
}

/** Python's `range(…)`, with the sandbox's limit on its length. */
export function makeRange(args: readonly Value[]): Range {
  if (args.length === 0 || args.length > 3) {
    raise("TypeError", `range expected 1 to 3 arguments, got ${args.length}`);
  }
  const numbers = args.map((each) => requireIndex(each));
  const [start, stop, step = 1] = numbers.length === 1 ? [0, numbers[0]!] : numbers;
  if (step === 0) raise("ValueError", "range() arg 3 must not be zero");
  const range = new Range(start!, stop!, step);
  if (range.length > 100_000) {
    raise(
      "OverflowError",
      "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).",
    );
  }
  return range;
}
