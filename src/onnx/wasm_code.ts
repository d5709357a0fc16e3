/**
 * The functions of a WebAssembly module, to put others in their places.
 *
 * @see https://webassembly.github.io/spec/core/binary/modules.html#code-section
 * @module
 */

/** Where a function lies in its module. */
export interface FunctionPlace {
  /** Of its length. */
  readonly head: number;
  /** Of its body: locals and instructions. */
  readonly start: number;
  readonly end: number;
}

import { joinBytes } from "../join_bytes.ts";

const HEADER_BYTES = 8;
const CODE_SECTION = 10;

interface CodeSection {
  /** Of its number. */
  readonly head: number;
  readonly start: number;
  readonly end: number;
  readonly functions: readonly FunctionPlace[];
}

/** A module's own functions, in their order. @throws {RangeError} when there is no code in it. */
export function listFunctions(module: Uint8Array): readonly FunctionPlace[] {
  return findCode(module).functions;
}

/**
 * A copy of the module in which some functions have another's body. Types are not looked at: a body fits where its own
 * function's type is the same, and where it names no other function, global or type.
 *
 * @param bodies by place among the module's own functions.
 * @throws {RangeError} when there is no code in it.
 */
export function replaceFunctions(
  module: Uint8Array,
  bodies: ReadonlyMap<number, Uint8Array>,
): Uint8Array<ArrayBuffer> {
  const code = findCode(module);
  const parts: Uint8Array[] = [];
  let copied = code.start;
  code.functions.forEach(({ head, end }, place) => {
    const body = bodies.get(place);
    if (body === undefined) return;
    parts.push(module.subarray(copied, head), encodeLength(body.length), body);
    copied = end;
  });
  parts.push(module.subarray(copied, code.end));
  const numBytes = parts.reduce((sum, { length }) => sum + length, 0);
  return joinBytes([
    module.subarray(0, code.head),
    Uint8Array.of(CODE_SECTION),
    encodeLength(numBytes),
    ...parts,
    module.subarray(code.end),
  ]);
}

function findCode(module: Uint8Array): CodeSection {
  for (let head = HEADER_BYTES; head < module.length;) {
    const { value: length, next: start } = readLength(module, head + 1);
    const end = start + length;
    if (module[head] === CODE_SECTION) {
      return { head, start, end, functions: readFunctions(module, start) };
    }
    head = end;
  }
  throw new RangeError("There is no code in this WebAssembly module.");
}

function readFunctions(module: Uint8Array, at: number): FunctionPlace[] {
  const { value: numFunctions, next } = readLength(module, at);
  let end = next;
  return Array.from({ length: numFunctions }, () => {
    const head = end;
    const { value: length, next: start } = readLength(module, head);
    end = start + length;
    return { head, start, end };
  });
}

/** A number in groups of seven bits, lowest first (LEB128). */
function readLength(module: Uint8Array, at: number): { value: number; next: number } {
  let value = 0;
  let next = at;
  let shift = 0;
  do {
    value |= (module[next]! & 0x7f) << shift;
    shift += 7;
  } while (module[next++]! > 0x7f);
  return { value: value >>> 0, next };
}

function encodeLength(length: number): Uint8Array {
  const bytes: number[] = [];
  let rest = length;
  for (; rest > 0x7f; rest >>>= 7) bytes.push(rest & 0x7f | 0x80);
  return Uint8Array.of(...bytes, rest);
}
