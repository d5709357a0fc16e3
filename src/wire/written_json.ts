/**
 * Objects of a request as they were written. JavaScript reads 1.0 as 1, rounds large integers and sorts keys that are
 * numbers; a chat template shows a function's schema or arguments as Python would, which keeps them.
 *
 * @module
 */
const texts = new WeakMap<object, string>();

/** Keeps the JSON that an object was read from. */
export function keepWritten(value: object, json: string): void {
  texts.set(value, json);
}

/** The JSON that an object was read from, if its own would differ. */
export function findWritten(value: object): string | undefined {
  return texts.get(value);
}

/** The object as JSON, numbers as they were written. */
export function writeAsWritten(value: object): string {
  return texts.get(value) ?? JSON.stringify(value);
}
