/**
 * Compiles statements into functions.
 *
 * @module
 */
import { printed, setAutoescape } from "../library/autoescape.ts";
import { charge } from "../meter.ts";
import { isTrue } from "../python/iterate.ts";
import { callValue } from "../python/call.ts";
import type { Value } from "../python/values.ts";
import type * as nodes from "../syntax/nodes.ts";
import { raise } from "../template_error.ts";
import { compileExpression } from "./expressions.ts";
import { compileArguments } from "./arguments.ts";
import { compileAssign } from "./assign.ts";
import { compileBlock, compileFilterBlock, compileScoped, compileSetBlock } from "./blocks.ts";
import { type BodyPlace, expressionPlace } from "./body_place.ts";
import { compileEnter } from "./enter.ts";
import { compileFor } from "./loops.ts";
import { makeMacro } from "./macros.ts";
import type { Execute, Frame, Signal } from "./frame.ts";
import { FunctionSlots, Scope } from "./symbols.ts";

/** Compiles statements that run one after the other. */
export function compileBody(body: readonly nodes.Statement[], outer: BodyPlace): Execute {
  const counter = { count: body.length };
  const place = { ...outer, counter };
  const all = body.map((statement) => compileStatement(statement, place));
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

function compileStatement(node: nodes.Statement, place: BodyPlace): Execute {
  charge(1);
  switch (node.kind) {
    case "text": {
      const { text } = node;
      return (frame) => void frame.output.write(text);
    }
    case "print": {
      const values = node.values.map((each) => compileExpression(each, expressionPlace(place)));
      return (frame) => {
        for (const value of values) frame.output.write(printed(value(frame)));
        return undefined;
      };
    }
    case "set": {
      const value = compileExpression(node.value, expressionPlace(place));
      const assign = compileAssign(node.target, place);
      return (frame) => void assign(frame, value(frame));
    }
    case "if":
      return compileIf(node, place);
    case "for":
      return compileFor(node, place, compileBody);
    case "macro": {
      const make = compileMacro(node.name, node, node.body, place);
      const assign = compileAssign({ kind: "name", name: node.name }, place);
      return (frame) => void assign(frame, make(frame));
    }
    case "call block":
      return compileCallBlock(node, place);
    case "with":
      return compileWith(node, place);
    case "set block":
      return compileSetBlock(node, place, compileBody);
    case "filter block":
      return compileFilterBlock(node, place, compileBody);
    case "block":
      return compileBlock(node, place, compileBody);
    case "autoescape":
      return compileAutoescape(node, place);
    case "break":
    case "continue": {
      if (!place.isInLoop) raise("TemplateSyntaxError", `'${node.kind}' outside loop`);
      return () => node.kind as Signal;
    }
    case "load":
      return () => raise("TypeError", "no loader for this environment specified");
  }
}

function compileIf(node: nodes.IfNode, outer: BodyPlace): Execute {
  const place = { ...outer, isConditional: true };
  const branches = [node, ...node.elifs].map(({ test, body }) => ({
    test: compileExpression(test, expressionPlace(place)),
    body: compileBody(body, place),
  }));
  const otherwise = compileBody(node.otherwise, place);
  return (frame) => {
    for (const { test, body } of branches) if (isTrue(test(frame))) return body(frame);
    return otherwise(frame);
  };
}

/** Compiles a macro, or the body of a `call` block, which is a macro without a name. */
function compileMacro(
  name: string,
  signature: nodes.Signature,
  body: readonly nodes.Statement[],
  place: BodyPlace,
): (frame: Frame) => Value {
  const owner = new FunctionSlots();
  const scope = new Scope(owner, place.scope);
  const inner = { ...place, scope, isTop: false, isInLoop: false, isConditional: false };
  return makeMacro({ name, ...signature, body }, inner, compileBody);
}

function compileCallBlock(node: nodes.CallBlockNode, place: BodyPlace): Execute {
  const makeCaller = compileMacro("caller", node, node.body, place);
  const inner = expressionPlace(place);
  const callee = compileExpression(node.call.callee, inner);
  const args = compileArguments(node.call.args, (each) => compileExpression(each, inner));
  return (frame) => {
    const { positional, named } = args(frame);
    const caller = makeCaller(frame);
    const value = callValue(callee(frame), {
      positional,
      named: new Map([...named, ["caller", caller]]),
    });
    frame.output.write(printed(value));
    return undefined;
  };
}

function compileWith(node: nodes.WithNode, place: BodyPlace): Execute {
  const scope = new Scope(place.scope.owner, place.scope);
  node.targets.forEach((target) => scope.declareTarget(target));
  scope.visit(node.body);
  const values = node.values.map((each) => compileExpression(each, expressionPlace(place)));
  const inner = { ...place, scope, isTop: false, isConditional: false };
  const assigns = node.targets.map((target) => compileAssign(target, inner));
  const enter = compileEnter(scope);
  const body = compileBody(node.body, inner);
  return (frame) => {
    enter(frame);
    assigns.forEach((assign, index) => assign(frame, values[index]!(frame)));
    return body(frame);
  };
}

function compileAutoescape(node: nodes.AutoescapeNode, place: BodyPlace): Execute {
  const scope = new Scope(place.scope.owner, place.scope);
  scope.visitExpressions(node.value);
  scope.visit(node.body);
  const value = compileExpression(node.value, { ...expressionPlace(place), scope });
  const body = compileScoped(node.body, { ...place, scope }, compileBody);
  const enter = compileEnter(scope);
  return (frame) => {
    enter(frame);
    const before = setAutoescape(isTrue(value(frame)));
    const signal = body(frame);
    setAutoescape(before);
    return signal;
  };
}
