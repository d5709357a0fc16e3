/**
 * Compiles macros, and the bodies of `call` blocks, which are macros too.
 *
 * @module
 */
import { markIfEscaping } from "../python/repr.ts";
import { descend } from "../meter.ts";
import { Dict } from "../python/dict.ts";
import { type Arguments, Callable, raise, Tuple, Undefined, type Value } from "../python/values.ts";
import type { Expression, MacroNode } from "../syntax/nodes.ts";
import { compileExpression } from "./expressions.ts";
import {
  type BodyContext,
  type CompileBody,
  type ExpressionContext,
  Frame,
  toExpressionContext,
} from "./frame.ts";
import { compileEnter, compileRead, compileWrite } from "./variables.ts";
import type { Scope } from "./symbols.ts";
import { readsName } from "./walk.ts";

/** Which of the names that Jinja2 defines in every macro are read by this one. */
interface Special {
  readonly caller: boolean;
  readonly kwargs: boolean;
  readonly varargs: boolean;
}

/** @param context a context with the macro's own scope, in a function of its own. */
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
