/**
 * Parsed JSON.
 *
 * @module
 */

/** A parsed JSON object. */
export type Json = Readonly<Record<string, unknown>>;

/** Whether a parsed JSON value is an object. */
export function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
