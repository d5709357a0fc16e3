/**
 * Renders Jinja2 templates as Jinja2 3.1 does in the environment that transformers sets up for chat templates:
 * sandboxed and immutable, with `trim_blocks`, `lstrip_blocks`, loop controls and the `generation` tag.
 *
 * @module
 */
import { compileTemplate } from "./compile/template.ts";
import { Variables } from "./compile/frame.ts";
import { setAutoescape } from "./library/autoescape.ts";
import { makeGlobals } from "./library/globals.ts";
import { JsonText } from "./json_text.ts";
import { charge, descend, startMeter } from "./meter.ts";
import { Dict } from "./python/dict.ts";
import { Float, PyObject, type Value } from "./python/values.ts";
import { TemplateError } from "./template_error.ts";

export class Template {
  readonly #render: (variables: Variables) => string;
  readonly #globals: ReadonlyMap<string, Value>;

  /**
   * @param options.now gives the time for `strftime_now`.
   * @throws {TemplateError} when the source is not a template.
   */
  constructor(source: string, { now = () => new Date() }: { readonly now?: () => Date } = {}) {
    startMeter();
    this.#render = catchOverflow(() => compileTemplate(source));
    this.#globals = makeGlobals(now);
  }

  /**
   * Renders the template. Variables are JSON values, or Python's.
   *
   * @throws {TemplateError} when the template raises an error, or exceeds a limit of steps, depth or text.
   */
  render(variables: Readonly<Record<string, unknown>>): string {
    startMeter();
    setAutoescape(false);
    return catchOverflow(() => {
      const given = Object.entries(variables).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, toValue(value)] as const]
      );
      return this.#render(new Variables(new Map(given), this.#globals));
    });
  }
}

/** Turns a stack overflow into an error of the template. */
function catchOverflow<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new TemplateError(`it is nested too deeply, or writes too much: ${error.message}`);
  }
}

/** Converts a JSON value to Python's. A number without a fraction becomes an int. */
function toValue(value: unknown): Value {
  charge(1);
  if (typeof value === "string" || typeof value === "boolean" || typeof value === "bigint") {
    return value;
  }
  if (typeof value === "number") return Number.isSafeInteger(value) ? value + 0 : new Float(value);
  if (value === null || value === undefined) return null;
  if (value instanceof PyObject) return value;
  if (value instanceof JsonText) return value.read();
  if (Array.isArray(value)) return descend(() => value.map(toValue));
  const entries = Object.entries(value as object).filter(([, each]) => each !== undefined);
  return descend(() => new Dict(entries.map(([key, each]) => [key, toValue(each)] as const)));
}
