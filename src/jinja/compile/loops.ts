/**
 * Compiles `for` loops.
 *
 * @module
 */
import { descend } from "../meter.ts";
import { printed } from "../library/autoescape.ts";
import { isTrue, iterate } from "../python/iterate.ts";
import { PyIterator, type Value } from "../python/values.ts";
import type { ForNode } from "../syntax/nodes.ts";
import { raise } from "../template_error.ts";
import { compileExpression, compileWrite } from "./expressions.ts";
import { type Execute, Frame, type Signal } from "./frame.ts";
import { LoopContext } from "./loop_context.ts";
import { compileAssign } from "./assign.ts";
import { type BodyPlace, type CompileBody, expressionPlace } from "./body_place.ts";
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

export function compileFor(node: ForNode, place: BodyPlace, compileBody: CompileBody): Execute {
  requireFreeLoop(node);
  const values = compileExpression(node.values, expressionPlace(place));
  if (!node.isRecursive) {
    const run = compileRun(node, place, compileBody, place.scope.owner);
    return (frame) => run(frame, values(frame));
  }
  const owner = new FunctionSlots();
  const run = compileRun(node, place, compileBody, owner);
  return (frame) => {
    const render = (depth: number) => (inner: Value): Value =>
      descend(() => {
        const own = new Frame(owner, frame.variables, frame);
        run(own, inner, { depth, recurse: render(depth + 1) });
        return own.output.finish();
      });
    frame.output.write(printed(render(0)(values(frame))));
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
  outer: BodyPlace,
  compileBody: CompileBody,
  owner: FunctionSlots,
): Run {
  const place = { ...outer, isTop: false, isConditional: false };
  const hasScopedBlock = Array.from(allStatements([node])).some((each) =>
    each.kind === "block" && each.isScoped
  );
  const hasLoop = node.isRecursive || readsName(node.body, "loop") || hasScopedBlock;
  const scope = new Scope(owner, outer.scope);
  const loop = hasLoop ? scope.declareParameter("loop") : undefined;
  scope.declareTarget(node.target);
  scope.visit(node.body);
  const inner = { ...place, scope, isInLoop: true };
  const assign = compileAssign(node.target, inner);
  const enter = compileEnter(scope);
  const body = compileBody(node.body, inner);
  const setLoop = loop === undefined ? undefined : compileWrite(loop);
  const select = node.test === undefined ? undefined : compileTest(node, place);
  const otherwise = compileOtherwise(node, place, compileBody, owner);

  return (frame, given, recursion) => {
    const values = select === undefined ? given : select(frame, given);
    const context = setLoop && new LoopContext(values, recursion);
    const all = context?.turns() ?? iterate(values);
    // As in Jinja2, `else` runs unless an iteration reached the end of the body, without `break` or `continue`.
    let isDone = false;
    for (const value of all) {
      setLoop?.(frame, context!);
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
  place: BodyPlace,
  compileBody: CompileBody,
  owner: FunctionSlots,
): Execute | undefined {
  if (otherwise.length === 0) return undefined;
  const scope = new Scope(owner, place.scope);
  scope.visit(otherwise);
  const enter = compileEnter(scope);
  const body = compileBody(otherwise, { ...place, scope });
  return (frame) => {
    enter(frame);
    return body(frame);
  };
}

/** Compiles the filter of a loop (`for … if`), which is applied to values as they are requested. */
function compileTest(
  node: ForNode,
  place: BodyPlace,
): (frame: Frame, values: Value) => Value {
  const owner = new FunctionSlots();
  const scope = new Scope(owner, place.scope);
  scope.declareTarget(node.target);
  scope.visitExpressions(node.test);
  const inner = { ...place, scope };
  const assign = compileAssign(node.target, inner);
  const enter = compileEnter(scope);
  const test = compileExpression(node.test!, expressionPlace(inner));
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
