/**
 * Compiles tags whose body is rendered into an output of its own: `set` blocks, `filter` blocks, named blocks, macros,
 * and `call` blocks, which are macros too.
 *
 * @module
 */
import { markIfEscaping } from "../python/repr.ts";
import {
  type Arguments,
  Callable,
  getTypeName,
  raise,
  toText,
  Tuple,
  Undefined,
  type Value,
} from "../python/values.ts";
import {
  type BlockNode,
  type Expression,
  type FilterBlockNode,
  type FilterNode,
  type MacroNode,
  readsName,
  type SetBlockNode,
  type Statement,
} from "../syntax/nodes.ts";
import {
  type BodyContext,
  compileAssign,
  type CompileBody,
  compileEnter,
  compileRead,
  compileWrite,
  type Execute,
  type ExpressionContext,
  Frame,
  Output,
  type Signal,
  toExpressionContext,
} from "./frame.ts";
import { compileExpression, compileFilter } from "./expressions.ts";
import { FunctionSlots, Scope } from "./symbols.ts";
import { descend } from "../meter.ts";
import { Dict } from "../python/collections.ts";

/** Compiles a body that has a scope of its own: `context.scope`. Whenever the body runs, it enters the scope first. */
export function compileScoped(
  body: readonly Statement[],
  context: BodyContext,
  compileBody: CompileBody,
): Execute {
  const inner = { ...context, isTop: false, isConditional: false };
  const enter = compileEnter(context.scope);
  const execute = compileBody(body, inner);
  return (frame) => {
    enter(frame);
    return execute(frame);
  };
}

/** Runs a body with an output of its own, and returns what it wrote. */
function capture(frame: Frame, run: Execute): { readonly text: string; readonly signal: Signal } {
  const outer = frame.output;
  frame.output = new Output();
  const signal = run(frame);
  const text = frame.output.finish();
  frame.output = outer;
  return { text, signal };
}

/** Compiles `{% set x %}…{% endset %}`. */
export function compileSetBlock(
  node: SetBlockNode,
  context: BodyContext,
  compileBody: CompileBody,
): Execute {
  const scope = new Scope(context.scope.owner, context.scope);
  scope.visit(node.body);
  const body = compileScoped(node.body, { ...context, scope }, compileBody);
  const assign = compileAssign(node.target, context);
  const filter = compileBlockFilter(node.filter, { ...context, scope });
  return (frame) => {
    const { text, signal } = capture(frame, body);
    if (signal !== undefined) return signal;
    assign(frame, filter(frame, markIfEscaping(text)));
    return undefined;
  };
}

/** Compiles the filters that are applied to the text of a block. */
function compileBlockFilter(
  node: FilterNode | undefined,
  context: BodyContext,
): (frame: Frame, text: Value) => Value {
  if (node === undefined) return (_frame, text) => text;
  // The tree nests filters: the last one is the outermost node.
  const inner = node.value === undefined
    ? undefined
    : compileBlockFilter(node.value as FilterNode, context);
  let input: Value = "";
  const apply = compileFilter(node, toExpressionContext(context), () => input);
  return (frame, text) => {
    input = inner === undefined ? text : inner(frame, text);
    return apply(frame);
  };
}

/** Compiles `{% filter x %}…{% endfilter %}`. */
export function compileFilterBlock(
  node: FilterBlockNode,
  context: BodyContext,
  compileBody: CompileBody,
): Execute {
  const scope = new Scope(context.scope.owner, context.scope);
  scope.visit(node.body);
  scope.visitExpressions(node.filter);
  const body = compileScoped(node.body, { ...context, scope }, compileBody);
  const filter = compileBlockFilter(node.filter, { ...context, scope });
  return (frame) => {
    const { text, signal } = capture(frame, body);
    if (signal !== undefined) return signal;
    const filtered = filter(frame, markIfEscaping(text));
    const printed = toText(filtered) ??
      raise("TypeError", `sequence item: expected str instance, ${getTypeName(filtered)} found`);
    frame.output.write(printed);
    return undefined;
  };
}

/** Compiles a named block. It reads only the template's variables and, if it is `scoped`, the variables around it. */
export function compileBlock(
  node: BlockNode,
  context: BodyContext,
  compileBody: CompileBody,
): Execute {
  if (context.blocks.has(node.name)) {
    raise("TemplateAssertionError", `block '${node.name}' defined twice`);
  }
  const owner = new FunctionSlots();
  const scope = new Scope(owner);
  context.blocks.set(node.name, () => "");
  scope.visit(node.body);
  const body = compileScoped(node.body, { ...context, scope, isInLoop: false }, compileBody);
  const around = Array.from(
    node.isScoped ? context.scope.allStores() : [],
    ([name, reference]) => [name, compileRead(reference)] as const,
  );
  const render = (frame: Frame) => {
    if (node.isRequired) {
      raise("TemplateRuntimeError", `Required block '${node.name}' not found`);
    }
    const seen = around.flatMap(([name, read]) => {
      const value = read(frame);
      return value === undefined ? [] : [[name, value] as const];
    });
    const inner = new Frame(owner, frame.variables.extend(new Map(seen)));
    body(inner);
    return inner.output.finish();
  };
  context.blocks.set(node.name, render);
  return (frame) => void frame.output.write(render(frame));
}

/** For each name that Jinja2 defines in every macro, whether this macro reads it. */
interface Special {
  readonly caller: boolean;
  readonly kwargs: boolean;
  readonly varargs: boolean;
}

/**
 * Compiles a macro to a function that makes the macro's value.
 *
 * @param context is for the macro's body: its scope is the first scope of a new {@linkcode FunctionSlots}.
 */
export function makeMacro(
  { name, params, defaults, body }: Omit<MacroNode, "kind">,
  context: BodyContext,
  compileBody: CompileBody,
): (frame: Frame) => Value {
  const { scope } = context;
  const reads = (special: string) => readsName(body, special);
  const special: Special = {
    caller: reads("caller"),
    kwargs: reads("kwargs") && !params.includes("kwargs"),
    varargs: reads("varargs") && !params.includes("varargs"),
  };
  const callerIndex = params.indexOf("caller");
  if (special.caller && callerIndex >= 0 && callerIndex < params.length - defaults.length) {
    raise(
      "TemplateAssertionError",
      'the special "caller" argument must be omitted or be given a default.',
    );
  }
  for (const param of params) scope.declareParameter(param);
  scope.visitExpressions(...defaults);
  const extra = (["caller", "kwargs", "varargs"] as const).filter((each) =>
    special[each] && !params.includes(each)
  );
  for (const each of extra) scope.declareParameter(each);
  scope.visit(body);

  const all = [...params, ...extra].map((param) => compileWrite(scope.find(param)!));
  const enter = compileEnter(scope);
  const fill = compileDefaults(params, defaults, toExpressionContext(context), scope);
  const execute = compileBody(body, context);
  return (outer) =>
    new Callable(name, (args) =>
      descend(() => {
        const frame = new Frame(scope.owner, outer.variables, outer);
        const values = bindMacro(name, params, args, special);
        all.forEach((write, index) => write(frame, values[index]));
        enter(frame);
        fill(frame);
        execute(frame);
        return markIfEscaping(frame.output.finish());
      }), { typeName: "Macro", attributes: makeAttributes(name, params, special) });
}

function makeAttributes(name: string, params: readonly string[], special: Special) {
  return new Map<string, Value>([
    ["name", name],
    ["arguments", new Tuple([...params])],
    ["catch_kwargs", special.kwargs],
    ["catch_varargs", special.varargs],
    ["caller", special.caller],
  ]);
}

/** Compiles the default values of parameters. Each may refer to the parameters before it. */
function compileDefaults(
  params: readonly string[],
  defaults: readonly Expression[],
  context: ExpressionContext,
  scope: Scope,
): (frame: Frame) => void {
  const all = params.map((param, index) => {
    const node = defaults[index - params.length + defaults.length];
    const reference = scope.find(param)!;
    return {
      read: compileRead(reference),
      write: compileWrite(reference),
      value: node === undefined
        ? () => new Undefined(`parameter '${param}' was not provided`)
        : compileExpression(node, context),
    };
  });
  return (frame) => {
    for (const { read, write, value } of all) {
      if (read(frame) === undefined) write(frame, value(frame));
    }
  };
}

/**
 * The values of a call's parameters and of the special names that the macro reads; `undefined` for parameters that are
 * not given.
 */
function bindMacro(
  name: string,
  params: readonly string[],
  { positional, named }: Arguments,
  special: Special,
): (Value | undefined)[] {
  const rest = new Map(named);
  const take = (param: string) => {
    const value = rest.get(param);
    rest.delete(param);
    return value;
  };
  const values = params.map((param, index) =>
    index < positional.length ? positional[index] : take(param)
  );
  if (special.caller && !params.includes("caller")) {
    values.push(take("caller") ?? new Undefined("No caller defined"));
  }
  if (special.kwargs) values.push(new Dict(rest));
  else if (rest.size > 0) {
    raise("TypeError", `macro '${name}' takes no keyword argument '${[...rest.keys()][0]}'`);
  }
  if (special.varargs) values.push(new Tuple(positional.slice(params.length)));
  else if (positional.length > params.length) {
    raise("TypeError", `macro '${name}' takes not more than ${params.length} argument(s)`);
  }
  return values;
}
