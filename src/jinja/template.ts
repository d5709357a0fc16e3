/**
 * Jinja2 templates, rendered as Jinja2 3.1 renders them in the environment that transformers sets up for chat
 * templates: sandboxed and immutable, `trim_blocks`, `lstrip_blocks`, loop controls, the `generation` tag.
 *
 * @module
 */
import { compileTemplate } from "./compile/template.ts";
import { Variables } from "./compile/frame.ts";
import { setAutoescape } from "./library/autoescape.ts";
import { makeGlobals } from "./library/globals.ts";
import { startMeter } from "./meter.ts";
import type { Value } from "./python/values.ts";
import { TemplateError } from "./template_error.ts";
import { toValue } from "./to_value.ts";

export class Template {
  readonly #render: (variables: Variables) => string;
  readonly #globals: ReadonlyMap<string, Value>;

  /**
   * @param options.now the time that templates are told.
   * @throws {TemplateError} when it is no template.
   */
  constructor(source: string, { now = () => new Date() }: { readonly now?: () => Date } = {}) {
    startMeter();
    this.#render = catchOverflow(() => compileTemplate(source));
    this.#globals = makeGlobals(now);
  }

  /**
   * Renders it. Values are JSON's, or Python's already.
   *
   * @throws {TemplateError} when it refuses its variables, or takes more steps, depth or text than it may.
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

/** An overflow of the stack is an error of the template's. */
function catchOverflow<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new TemplateError(`it is nested too deeply, or writes too much: ${error.message}`);
  }
}
