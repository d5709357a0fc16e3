/**
 * How Optimum and its kin call the inputs and outputs of a decoder's keys and values.
 *
 * @module
 */

/** Whether a cache input or output holds what an encoder made: `past_key_values.0.encoder.key`. */
export function isCrossCache(name: string): boolean {
  return name.includes(".encoder.");
}

/** The output that makes a cache input: `present.0.key` for `past_key_values.0.key`, or for `past.0.key`. */
export function presentName(pastName: string): string {
  return pastName.replace(/^past(_key_values)?/, "present");
}
