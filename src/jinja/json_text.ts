import { startMeter } from "./meter.ts";
import { Dict } from "./python/dict.ts";
import { parseJson } from "./python/json.ts";
import { str } from "./python/repr.ts";
import type { Value } from "./python/values.ts";
import { isRaised } from "./template_error.ts";

/**
 * JSON text that is passed to a template as Python's `json.loads` would read it: 1.0 stays a float, integers have any
 * size, keys keep their order. A text that is not a JSON object or array is passed as it is.
 */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  read(): Value {
    if (this.text.trim() === "") return new Dict();
    try {
      const value = parseJson(this.text);
      return value instanceof Dict || Array.isArray(value) ? value : this.text;
    } catch (error) {
      if (isRaised(error, "JSONDecodeError")) return this.text;
      throw error;
    }
  }

  /** Reads the members of an object as variables of a template. */
  readMembers(): Record<string, Value> {
    startMeter();
    const value = this.read();
    if (!(value instanceof Dict)) return {};
    return Object.fromEntries(Array.from(value.entries(), ([key, each]) => [str(key), each]));
  }
}
