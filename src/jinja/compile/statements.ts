/**
 * Compiles statements to functions.
 *
 * @module
 */
import { markIfEscaping, printed, setAutoescape } from "../library/autoescape.ts";
import { charge } from "../meter.ts";
import { isTrue, iterate } from "../python/iterate.ts";
import { callValue } from "../python/call.ts";
import { Namespace, type Value } from "../python/values.ts";
import type * as nodes from "../syntax/nodes.ts";
import { raise } from "../template_error.ts";
import {
  compileArguments,
  compileExpression,
  compileFilter,
  compileRead,
  compileWrite,
} from "./expressions.ts";
import { type BodyPlace, expressionPlace } from "./body_place.ts";
import { compileFor } from "./loops.ts";
import { makeMacro } from "./macros.ts";
import { type Execute, Frame, Output, type Signal } from "./frame.ts";
import { FunctionSlots, type Load, type Reference, Scope } from "./symbols.ts";

/** Statements that run one after the other. */
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

/** A body in a scope of its own, within the same function. */
export function compileScoped(
  body: readonly nodes.Statement[],
  place: BodyPlace,
  scope: Scope,
): Execute {
  const inner = { ...place, scope, isTop: false, isConditional: false };
  const enter = compileEnter(scope);
  const execute = compileBody(body, inner);
  return (frame) => {
    enter(frame);
    return execute(frame);
  };
}

/** Gives the variables of a scope the values that they begin with. */
export function compileEnter(scope: Scope): (frame: Frame) => void {
  const loads = scope.loads.flatMap(([reference, load]) => compileLoad(reference, load) ?? []);
  return (frame) => {
    for (const load of loads) load(frame);
  };
}

function compileLoad(reference: Reference, load: Load): ((frame: Frame) => void) | undefined {
  if (load.kind === "parameter") return undefined;
  const write = compileWrite(reference);
  if (load.kind === "undefined") return (frame) => write(frame, undefined);
  if (load.kind === "variable") return (frame) => write(frame, frame.variables.get(load.name));
  const read = compileRead(load.reference);
  return (frame) => write(frame, read(frame));
}

function compileStatement(node: nodes.Statement, place: BodyPlace): Execute {
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
      return compileFor(node, place, { compileBody, compileEnter, compileAssign });
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
      return compileSetBlock(node, place);
    case "filter block":
      return compileFilterBlock(node, place);
    case "block":
      return compileBlock(node, place);
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

/** Assigns a value. */
export function compileAssign(
  target: nodes.Target | nodes.Expression,
  place: BodyPlace,
): (frame: Frame, value: Value) => void {
  if (target.kind === "name") {
    const { name } = target;
    const write = compileWrite(place.scope.find(name)!);
    if (!place.isTop) return write;
    return (frame, value) => {
      write(frame, value);
      frame.variables.set(name, value);
    };
  }
  if (target.kind === "namespace") {
    const read = compileRead(place.scope.find(target.name)!);
    const { attribute } = target;
    return (frame, value) => {
      const namespace = read(frame);
      if (!(namespace instanceof Namespace)) {
        raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
      }
      (namespace as Namespace).values.set(attribute, value);
    };
  }
  if (target.kind !== "tuple") throw new Error(`A ${target.kind} is no target.`);
  const all = target.items.map((each) => compileAssign(each, place));
  return (frame, value) => {
    const values = unpack(value, all.length);
    all.forEach((assign, index) => assign(frame, values[index]!));
  };
}

function unpack(value: Value, wanted: number): Value[] {
  const values: Value[] = [];
  for (const each of iterate(value)) {
    if (values.length === wanted) {
      raise("ValueError", `too many values to unpack (expected ${wanted})`);
    }
    values.push(each);
  }
  if (values.length < wanted) {
    raise("ValueError", `not enough values to unpack (expected ${wanted}, got ${values.length})`);
  }
  return values;
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

/** Runs what writes into an output of its own, and returns what it wrote. */
function capture(frame: Frame, run: Execute): { readonly text: string; readonly signal: Signal } {
  const outer = frame.output;
  frame.output = new Output();
  const signal = run(frame);
  const text = frame.output.finish();
  frame.output = outer;
  return { text, signal };
}

/** Makes a macro, or the caller of a `call` block, which is a macro without a name. */
function compileMacro(
  name: string,
  signature: nodes.Signature,
  body: readonly nodes.Statement[],
  place: BodyPlace,
): (frame: Frame) => Value {
  const owner = new FunctionSlots();
  const scope = new Scope(owner, place.scope);
  return makeMacro(name, signature, body, {
    ...place,
    scope,
    isTop: false,
    isInLoop: false,
    isConditional: false,
  }, {
    compileBody,
    compileEnter,
  });
}

function compileCallBlock(node: nodes.CallBlockNode, place: BodyPlace): Execute {
  const makeCaller = compileMacro("caller", node, node.body, place);
  const inner = expressionPlace(place);
  const callee = compileExpression(node.call.callee, inner);
  const args = compileArguments(node.call.args, inner);
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

function compileSetBlock(node: nodes.SetBlockNode, place: BodyPlace): Execute {
  const scope = new Scope(place.scope.owner, place.scope);
  scope.visit(node.body);
  const body = compileScoped(node.body, place, scope);
  const assign = compileAssign(node.target, place);
  const filter = compileBlockFilter(node.filter, { ...place, scope });
  return (frame) => {
    const { text, signal } = capture(frame, body);
    if (signal !== undefined) return signal;
    assign(frame, filter(frame, markIfEscaping(text)));
    return undefined;
  };
}

/** Filters what a block wrote. */
function compileBlockFilter(
  node: nodes.FilterNode | undefined,
  place: BodyPlace,
): (frame: Frame, text: Value) => Value {
  if (node === undefined) return (_frame, text) => text;
  // Filters behind others come first in the tree.
  const inner = node.value === undefined
    ? undefined
    : compileBlockFilter(node.value as nodes.FilterNode, place);
  let input: Value = "";
  const apply = compileFilter(node, expressionPlace(place), () => input);
  return (frame, text) => {
    input = inner === undefined ? text : inner(frame, text);
    return apply(frame);
  };
}

function compileFilterBlock(node: nodes.FilterBlockNode, place: BodyPlace): Execute {
  const scope = new Scope(place.scope.owner, place.scope);
  scope.visit(node.body);
  scope.visitExpressions(node.filter);
  const body = compileScoped(node.body, place, scope);
  const filter = compileBlockFilter(node.filter, { ...place, scope });
  return (frame) => {
    const { text, signal } = capture(frame, body);
    if (signal !== undefined) return signal;
    frame.output.write(printed(filter(frame, markIfEscaping(text))));
    return undefined;
  };
}

/** A block sees the template's variables only, or those around it too if it is scoped. */
function compileBlock(node: nodes.BlockNode, place: BodyPlace): Execute {
  if (place.blocks.has(node.name)) {
    raise("TemplateAssertionError", `block '${node.name}' defined twice`);
  }
  const owner = new FunctionSlots();
  const scope = new Scope(owner);
  place.blocks.set(node.name, () => "");
  scope.visit(node.body);
  const body = compileScoped(node.body, { ...place, isInLoop: false }, scope);
  const around = Array.from(
    node.isScoped ? place.scope.allStores() : [],
    ([name, reference]) => [name, compileRead(reference)] as const,
  );
  const render = (frame: Frame) => {
    const seen = around.flatMap(([name, read]) => {
      const value = read(frame);
      return value === undefined ? [] : [[name, value] as const];
    });
    const inner = new Frame(owner, frame.variables.extend(new Map(seen)));
    body(inner);
    return inner.output.finish();
  };
  place.blocks.set(node.name, render);
  return (frame) => void frame.output.write(render(frame));
}

function compileAutoescape(node: nodes.AutoescapeNode, place: BodyPlace): Execute {
  const scope = new Scope(place.scope.owner, place.scope);
  scope.visitExpressions(node.value);
  scope.visit(node.body);
  const value = compileExpression(node.value, { ...expressionPlace(place), scope });
  const body = compileScoped(node.body, place, scope);
  const enter = compileEnter(scope);
  return (frame) => {
    enter(frame);
    const before = setAutoescape(isTrue(value(frame)));
    const signal = body(frame);
    setAutoescape(before);
    return signal;
  };
}
