/**
 * Compiles statements into functions.
 *
 * @module
 */
import { setAutoescape, toPrinted } from "../python/repr.ts";
import { charge } from "../meter.ts";
import { isTrue } from "../python/collections.ts";
import { callValue } from "../python/call.ts";
import { raise, type Value } from "../python/values.ts";
import type * as nodes from "../syntax/nodes.ts";
import { compileArguments, compileExpression } from "./expressions.ts";
import {
  type BodyContext,
  compileAssign,
  compileEnter,
  type Execute,
  type Frame,
  type Signal,
  toExpressionContext,
} from "./frame.ts";
import {
  compileBlock,
  compileFilterBlock,
  compileScoped,
  compileSetBlock,
  makeMacro,
} from "./blocks.ts";
import { compileFor } from "./loops.ts";
import { FunctionSlots, Scope } from "./symbols.ts";

/** Compiles statements that run one after the other. */
export function compileBody(body: readonly nodes.Statement[], outer: BodyContext): Execute {
  const counter = { count: body.length };
  const context = { ...outer, counter };
  const all = body.map((statement) => compileStatement(statement, context));
  const steps = counter.count;
  return (frame) => {
    charge(steps);
    for (const execute of all) {
      const signal = execute(frame);
      if (signal !== undefined) return signal;
    }
    return undefined;
  };
}

function compileStatement(node: nodes.Statement, context: BodyContext): Execute {
  charge(1);
  switch (node.kind) {
    case "text": {
      const { text } = node;
      return (frame) => void frame.output.write(text);
    }
    case "print": {
      const values = node.values.map((each) =>
        compileExpression(each, toExpressionContext(context))
      );
      return (frame) => {
        for (const value of values) frame.output.write(toPrinted(value(frame)));
        return undefined;
      };
    }
    case "set": {
      const value = compileExpression(node.value, toExpressionContext(context));
      const assign = compileAssign(node.target, context);
      return (frame) => void assign(frame, value(frame));
    }
    case "if":
      return compileIf(node, context);
    case "for":
      return compileFor(node, context, compileBody);
    case "macro": {
      const make = compileMacro(node.name, node, node.body, context);
      const assign = compileAssign({ kind: "name", name: node.name }, context);
      return (frame) => void assign(frame, make(frame));
    }
    case "call block":
      return compileCallBlock(node, context);
    case "with":
      return compileWith(node, context);
    case "set block":
      return compileSetBlock(node, context, compileBody);
    case "filter block":
      return compileFilterBlock(node, context, compileBody);
    case "block":
      return compileBlock(node, context, compileBody);
    case "autoescape":
      return compileAutoescape(node, context);
    case "break":
    case "continue": {
      if (!context.isInLoop) raise("TemplateSyntaxError", `'${node.kind}' outside loop`);
      return () => node.kind as Signal;
    }
    case "load":
      return () => raise("TypeError", "no loader for this environment specified");
  }
}

function compileIf(node: nodes.IfNode, outer: BodyContext): Execute {
  const context = { ...outer, isConditional: true };
  const branches = [node, ...node.elifs].map(({ test, body }) => ({
    test: compileExpression(test, toExpressionContext(context)),
    body: compileBody(body, context),
  }));
  const otherwise = compileBody(node.otherwise, context);
  return (frame) => {
    for (const { test, body } of branches) if (isTrue(test(frame))) return body(frame);
    return otherwise(frame);
  };
}

/** Compiles a macro, or the body of a `call` block, which is a macro with the name `caller`. */
function compileMacro(
  name: string,
  signature: nodes.Signature,
  body: readonly nodes.Statement[],
  context: BodyContext,
): (frame: Frame) => Value {
  const owner = new FunctionSlots();
  const scope = new Scope(owner, context.scope);
  const inner = { ...context, scope, isTop: false, isInLoop: false, isConditional: false };
  return makeMacro({ name, ...signature, body }, inner, compileBody);
}

function compileCallBlock(node: nodes.CallBlockNode, context: BodyContext): Execute {
  const makeCaller = compileMacro("caller", node, node.body, context);
  const inner = toExpressionContext(context);
  const callee = compileExpression(node.call.callee, inner);
  const args = compileArguments(node.call.args, (each) => compileExpression(each, inner));
  return (frame) => {
    const { positional, named } = args(frame);
    const caller = makeCaller(frame);
    const value = callValue(callee(frame), {
      positional,
      named: new Map([...named, ["caller", caller]]),
    });
    frame.output.write(toPrinted(value));
    return undefined;
  };
}

function compileWith(node: nodes.WithNode, context: BodyContext): Execute {
  const scope = new Scope(context.scope.owner, context.scope);
  node.targets.forEach((target) => scope.declareTarget(target));
  scope.visit(node.body);
  const values = node.values.map((each) => compileExpression(each, toExpressionContext(context)));
  const inner = { ...context, scope, isTop: false, isConditional: false };
  const assigns = node.targets.map((target) => compileAssign(target, inner));
  const enter = compileEnter(scope);
  const body = compileBody(node.body, inner);
  return (frame) => {
    enter(frame);
    assigns.forEach((assign, index) => assign(frame, values[index]!(frame)));
    return body(frame);
  };
}

function compileAutoescape(node: nodes.AutoescapeNode, context: BodyContext): Execute {
  const scope = new Scope(context.scope.owner, context.scope);
  scope.visitExpressions(node.value);
  scope.visit(node.body);
  const value = compileExpression(node.value, { ...toExpressionContext(context), scope });
  const body = compileScoped(node.body, { ...context, scope }, compileBody);
  const enter = compileEnter(scope);
  return (frame) => {
    enter(frame);
    const before = setAutoescape(isTrue(value(frame)));
    const signal = body(frame);
    setAutoescape(before);
    return signal;
  };
}
