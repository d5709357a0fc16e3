/**
 * Renders Jinja2 templates as Jinja2 3.1 does in the environment that transformers sets up for chat templates:
 * sandboxed and immutable, with `trim_blocks`, `lstrip_blocks`, loop controls and the `generation` tag.
 *
 * @module
 */
import { compileEnter, Frame, Variables } from "./compile/frame.ts";
import { setAutoescape, str } from "./python/repr.ts";
import { makeGlobals } from "./library/globals.ts";
import { charge, descend, startMeter } from "./meter.ts";
import { Dict } from "./python/collections.ts";
import { Callable, Float, isRaised, PyObject, TemplateError, type Value } from "./python/values.ts";
import { parseTemplate } from "./syntax/parser.ts";
import { compileBody } from "./compile/statements.ts";
import { FunctionSlots, Scope } from "./compile/symbols.ts";
import { readsName } from "./syntax/nodes.ts";
import { parseJson } from "./python/json.ts";

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
   * Renders the template. Variables are JSON values, Python's values, or {@linkcode JsonText}.
   *
   * @throws {TemplateError} when the template raises an error, or exceeds a limit (see `meter.ts`).
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

/** Turns a stack overflow, or a text that is too long for JavaScript, into an error of the template. */
function catchOverflow<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new TemplateError(`it is nested too deeply, or writes too much: ${error.message}`);
  }
}

/** Converts a JSON value to a Python value. Safe integers become ints, other numbers become floats. */
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
  const entries = Object.entries(value).filter(([, each]) => each !== undefined);
  return descend(() => new Dict(entries.map(([key, each]) => [key, toValue(each)] as const)));
}

/** The variable `self`, which gives the template's blocks by name. */
class Self extends PyObject {
  readonly typeName = "TemplateReference";
  readonly #blocks: ReadonlyMap<string, (frame: Frame) => string>;
  readonly #frame: Frame;

  constructor(blocks: ReadonlyMap<string, (frame: Frame) => string>, frame: Frame) {
    super();
    this.#blocks = blocks;
    this.#frame = frame;
  }

  override describe(): string {
    return "<TemplateReference None>";
  }

  override attribute(name: string): Value | undefined {
    const render = this.#blocks.get(name);
    return render && new Callable(name, () => render(this.#frame), { typeName: "BlockReference" });
  }
}

/**
 * Compiles a template.
 *
 * @throws {TemplateError} `TemplateSyntaxError`, `TemplateAssertionError`
 */
function compileTemplate(source: string): (variables: Variables) => string {
  const statements = parseTemplate(source);
  const blocks = new Map<string, (frame: Frame) => string>();
  const owner = new FunctionSlots();
  const scope = new Scope(owner);
  scope.visit(statements);
  const enter = compileEnter(scope);
  const body = compileBody(statements, {
    scope,
    isTop: true,
    isInLoop: false,
    isConditional: false,
    blocks,
    counter: { count: 0 },
  });
  const readsSelf = readsName(statements, "self");
  return (variables) => {
    const frame = new Frame(owner, variables);
    if (readsSelf) variables.set("self", new Self(blocks, frame));
    enter(frame);
    body(frame);
    return frame.output.finish();
  };
}

/**
 * JSON text that is passed to a template as Python's `json.loads` would read it: 1.0 stays a float, integers have any
 * size, keys keep their order. Blank text becomes an empty dict. Other text that is not a JSON object or array is
 * passed unchanged.
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

  /** Reads the members of an object as variables of a template; none if the text is not an object. */
  readMembers(): Record<string, Value> {
    startMeter();
    const value = this.read();
    if (!(value instanceof Dict)) return {};
    return Object.fromEntries(Array.from(value.entries(), ([key, each]) => [str(key), each]));
  }
}
