/**
 * From the bytes of a JSON body to its value.
 *
 * @module
 */

/** @throws {SyntaxError} with the reason. */
export function decodeJson(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SyntaxError("it is not valid UTF-8");
  }
  return JSON.parse(text);
}
