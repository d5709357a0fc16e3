/**
 * Compiles `for` loops.
 *
 * @module
 */
import { descend } from "../meter.ts";
import { toPrinted } from "../library/autoescape.ts";
import { isTrue, iterate } from "../python/iterate.ts";
import { PyIterator, type Value } from "../python/values.ts";
import type { ForNode } from "../syntax/nodes.ts";
import { raise } from "../template_error.ts";
import { compileExpression, compileWrite } from "./expressions.ts";
import { type Execute, Frame, type Signal } from "./frame.ts";
import { LoopContext } from "./loop_context.ts";
import { compileAssign } from "./assign.ts";
import { type BodyContext, type CompileBody, toExpressionContext } from "./body_place.ts";
import { compileEnter } from "./enter.ts";
import { FunctionSlots, Scope } from "./symbols.ts";
import { allStatements, assignsName, listTargets, readsName } from "./walk.ts";

/** Runs the loop over values. */
type Run = (frame: Frame, values: Value, recursion?: Recursion) => Signal;

/** How a recursive loop calls itself. */
interface Recursion {
  readonly depth: number;
  readonly recurse: (values: Value) => Value;
}

export function compileFor(node: ForNode, context: BodyContext, compileBody: CompileBody): Execute {
  requireFreeLoop(node);
  const values = compileExpression(node.values, toExpressionContext(context));
  if (!node.isRecursive) {
    const run = compileRun(node, context, compileBody, context.scope.owner);
    return (frame) => run(frame, values(frame));
  }
  const owner = new FunctionSlots();
  const run = compileRun(node, context, compileBody, owner);
  return (frame) => {
    const render = (depth: number) => (inner: Value): Value =>
      descend(() => {
        const own = new Frame(owner, frame.variables, frame);
        run(own, inner, { depth, recurse: render(depth + 1) });
        return own.output.finish();
      });
    frame.output.write(toPrinted(render(0)(values(frame))));
    return undefined;
  };
}

function requireFreeLoop(node: ForNode): void {
  for (const statement of allStatements([node])) {
    if (listTargets(statement).some((target) => assignsName(target, "loop"))) {
      raise("TemplateAssertionError", "Can't assign to special loop variable in for-loop target");
    }
  }
}

function compileRun(
  node: ForNode,
  outer: BodyContext,
  compileBody: CompileBody,
  owner: FunctionSlots,
): Run {
  const context = { ...outer, isTop: false, isConditional: false };
  const hasScopedBlock = Array.from(allStatements([node])).some((each) =>
    each.kind === "block" && each.isScoped
  );
  const hasLoop = node.isRecursive || readsName(node.body, "loop") || hasScopedBlock;
  const scope = new Scope(owner, outer.scope);
  const loop = hasLoop ? scope.declareParameter("loop") : undefined;
  scope.declareTarget(node.target);
  scope.visit(node.body);
  const inner = { ...context, scope, isInLoop: true };
  const assign = compileAssign(node.target, inner);
  const enter = compileEnter(scope);
  const body = compileBody(node.body, inner);
  const setLoop = loop === undefined ? undefined : compileWrite(loop);
  const select = node.test === undefined ? undefined : compileTest(node, context);
  const otherwise = compileOtherwise(node, context, compileBody, owner);

  return (frame, given, recursion) => {
    const values = select === undefined ? given : select(frame, given);
    const loop = setLoop && new LoopContext(values, recursion);
    const all = loop?.iterations() ?? iterate(values);
    // As in Jinja2, `else` runs unless an iteration reached the end of the body, without `break` or `continue`.
    let isDone = false;
    for (const value of all) {
      setLoop?.(frame, loop!);
      assign(frame, value);
      enter(frame);
      const signal = body(frame);
      if (signal === "break") break;
      if (signal === undefined) isDone = true;
    }
    setLoop?.(frame, undefined);
    // Jinja2 compiles the `else` body to code after the loop, so `break` in it leaves the loop around this one.
    return isDone ? undefined : otherwise?.(frame);
  };
}

function compileOtherwise(
  { otherwise }: ForNode,
  context: BodyContext,
  compileBody: CompileBody,
  owner: FunctionSlots,
): Execute | undefined {
  if (otherwise.length === 0) return undefined;
  const scope = new Scope(owner, context.scope);
  scope.visit(otherwise);
  const enter = compileEnter(scope);
  const body = compileBody(otherwise, { ...context, scope });
  return (frame) => {
    enter(frame);
    return body(frame);
  };
}

/** Compiles the filter of a loop (`for … if`), which is applied to values as they are requested. */
function compileTest(
  node: ForNode,
  context: BodyContext,
): (frame: Frame, values: Value) => Value {
  const owner = new FunctionSlots();
  const scope = new Scope(owner, context.scope);
  scope.declareTarget(node.target);
  scope.visitExpressions(node.test);
  const inner = { ...context, scope };
  const assign = compileAssign(node.target, inner);
  const enter = compileEnter(scope);
  const test = compileExpression(node.test!, toExpressionContext(inner));
  return (outer, values) => {
    const frame = new Frame(owner, outer.variables, outer);
    enter(frame);
    return new PyIterator(function* () {
      for (const value of iterate(values)) {
        assign(frame, value);
        if (isTrue(test(frame))) yield value;
      }
    }());
  };
}
