/**
 * Compiles whole templates.
 *
 * @module
 */
import { Callable, PyObject, type Value } from "../python/values.ts";
import { parseTemplate } from "../syntax/parser.ts";
import { Frame, type Variables } from "./frame.ts";
import { compileEnter } from "./enter.ts";
import { compileBody } from "./statements.ts";
import { FunctionSlots, Scope } from "./symbols.ts";
import { readsName } from "./walk.ts";

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
export function compileTemplate(source: string): (variables: Variables) => string {
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
