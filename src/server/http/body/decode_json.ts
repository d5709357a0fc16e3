/**
 * Decodes the bytes of a JSON body.
 *
 * @module
 */
import { keepWritten } from "../../../wire/written_json.ts";
import { findWrittenObjects, type WrittenObject } from "./written_objects.ts";

/** A value, and those of its objects whose JSON says more. */
export interface DecodedJson {
  readonly value: unknown;
  readonly written: readonly WrittenObject[];
}

/** @throws {SyntaxError} with the reason. */
export function decodeJson(bytes: Uint8Array): unknown {
  return JSON.parse(decodeText(bytes));
}

/** Decodes a body. @throws {SyntaxError} with the reason. */
export function decodeWritten(bytes: Uint8Array): DecodedJson {
  const text = decodeText(bytes);
  const value: unknown = JSON.parse(text);
  return { value, written: findWrittenObjects(text) };
}

function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SyntaxError("it is not valid UTF-8");
  }
}

/** The value, its objects known by how they were written. */
export function keepAllWritten({ value, written }: DecodedJson): unknown {
  for (const { path, json } of written) {
    const found = path.reduce<unknown>(
      (within, key) => (within as Record<string | number, unknown> | null | undefined)?.[key],
      value,
    );
    // Of two fields with one name only the last is there.
    if (typeof found === "object" && found !== null) keepWritten(found, json);
  }
  return value;
}
