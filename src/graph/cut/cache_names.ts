/**
 * Names of a decoder's key and value inputs and outputs, as Optimum and similar exporters give them.
 *
 * @module
 */

/** Whether a cache input or output belongs to the encoder's output: `past_key_values.0.encoder.key`. */
export function isCrossCache(name: string): boolean {
  return name.includes(".encoder.");
}

/** The output that becomes a cache input: `present.0.key` for `past_key_values.0.key`, or for `past.0.key`. */
export function presentName(pastName: string): string {
  return pastName.replace(/^past(_key_values)?/, "present");
}
