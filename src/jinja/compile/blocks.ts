/**
 * Tags whose body is rendered into an output of its own: `set` blocks, `filter` blocks and named blocks.
 *
 * @module
 */
import { markIfEscaping, toPrinted } from "../python/repr.ts";
import { raise, type Value } from "../python/values.ts";
import type {
  BlockNode,
  FilterBlockNode,
  FilterNode,
  SetBlockNode,
  Statement,
} from "../syntax/nodes.ts";
import { compileAssign, compileEnter, compileRead } from "./variables.ts";
import {
  type BodyContext,
  type CompileBody,
  type Execute,
  Frame,
  Output,
  type Signal,
  toExpressionContext,
} from "./frame.ts";
import { compileFilter } from "./expressions.ts";
import { FunctionSlots, Scope } from "./symbols.ts";

/** Compiles a body with a scope of its own, within the same function. */
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

/** Compiles the filters of a block, which are applied to what it wrote. */
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
    frame.output.write(toPrinted(filter(frame, markIfEscaping(text))));
    return undefined;
  };
}

/** Compiles a named block. It sees only the template's variables, or, if it is `scoped`, also those around it. */
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
