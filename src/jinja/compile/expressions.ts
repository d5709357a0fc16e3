/**
 * Compiles expressions into functions.
 *
 * @module
 */
import { escape, isAutoescaping, markIfEscaping, str } from "../python/repr.ts";
import { applyFilter, applyTest, isFilter, isTest } from "../library/apply.ts";
import { addTexts, applyBinary, negate, posit } from "../python/arithmetic.ts";
import { getAttribute, getRange, getSubscript } from "../python/attributes.ts";
import { areEqual, contains, isOrdered } from "../python/compare.ts";
import { Dict, isTrue, iterate, Slice } from "../python/collections.ts";
import { callValue } from "../python/call.ts";
import { asNumber } from "../python/numbers.ts";
import {
  type Arguments,
  getTypeName,
  NO_NAMED,
  raise,
  Tuple,
  Undefined,
  type Value,
  valueOr,
} from "../python/values.ts";
import {
  type CallArguments,
  type CompareOperator,
  type Expression,
  type FilterNode,
  listSubexpressions,
} from "../syntax/nodes.ts";
import { charge } from "../meter.ts";
import { compileRead, type Evaluate, type ExpressionContext, type Frame } from "./frame.ts";

/**
 * @throws {TemplateError} `TemplateAssertionError` for filters and tests that do not exist, unless they may never run;
 * `TemplateSyntaxError` for a keyword argument that is repeated.
 */
export function compileExpression(node: Expression, context: ExpressionContext): Evaluate {
  charge(1);
  context.count();
  const compile = (each: Expression) => compileExpression(each, context);
  switch (node.kind) {
    case "constant": {
      const { value } = node;
      return () => value;
    }
    case "name":
      return compileName(node.name, context);
    case "tuple": {
      const items = node.items.map(compile);
      return (frame) => new Tuple(items.map((each) => each(frame)));
    }
    case "list": {
      const items = node.items.map(compile);
      return (frame) => items.map((each) => each(frame));
    }
    case "dict": {
      const entries = node.entries.map(([key, value]) => [compile(key), compile(value)] as const);
      return (frame) =>
        new Dict(entries.map(([key, value]) => [key(frame), value(frame)] as const));
    }
    case "binary": {
      const [left, right] = [compile(node.left), compile(node.right)];
      const { operator } = node;
      if (operator === "**" && isConstant(node.left) && !isConstant(node.right)) {
        return (frame) => raiseConstant(left(frame), right(frame));
      }
      return (frame) => applyBinary(operator, left(frame), right(frame));
    }
    case "unary": {
      const value = compile(node.value);
      if (node.operator === "not") return (frame) => !isTrue(value(frame));
      const apply = node.operator === "-" ? negate : posit;
      return (frame) => apply(value(frame));
    }
    case "logic":
      return compileLogic(compile(node.left), compile(node.right), node.operator);
    case "concat":
      return compileConcat(node.items.map(compile));
    case "compare":
      return compileCompare(
        compile(node.first),
        node.others.map(({ operator, value }) => ({ operator, value: compile(value) })),
      );
    case "attribute": {
      const [value, { name }] = [compile(node.value), node];
      return (frame) => getAttribute(value(frame), name);
    }
    case "item": {
      const [value, key] = [compile(node.value), compile(node.key)];
      const get = node.key.kind === "slice" && !isConstant(node) ? getRange : getSubscript;
      return (frame) => get(value(frame), key(frame));
    }
    case "slice": {
      const [start, stop, step] = [node.start, node.stop, node.step].map((each) =>
        each === undefined ? () => null : compile(each)
      );
      return (frame) => new Slice(start!(frame), stop!(frame), step!(frame));
    }
    case "filter":
      return compileFilter(node, context, compile(node.value!));
    case "test":
      return compileTest(node, context);
    case "call": {
      const [callee, args] = [
        compile(node.callee),
        compileArguments(node.args, (each) => compileExpression(each, context)),
      ];
      return (frame) => callValue(callee(frame), args(frame));
    }
    case "condition":
      return compileCondition(node, context);
  }
}

/** Whether Jinja2 computes an expression when it compiles the template. */
function isConstant(node: Expression): boolean {
  return node.kind !== "name" && node.kind !== "call" &&
    listSubexpressions(node).every((each) => each === undefined || isConstant(each));
}

/**
 * Raises a constant to a computed power. Jinja2 writes the constant without parentheses into its Python code, where `**`
 * binds more tightly than a minus: `-2 ** x` is `-(2 ** x)`.
 */
function raiseConstant(base: Value, exponent: Value): Value {
  const number = asNumber(base) ?? 0;
  return number < 0 || Object.is(number, -0)
    ? negate(applyBinary("**", negate(base), exponent))
    : applyBinary("**", base, exponent);
}

function compileName(name: string, { scope }: ExpressionContext): Evaluate {
  const reference = scope.find(name);
  if (reference === undefined) throw new Error(`The name ${name} was not seen.`);
  const read = compileRead(reference);
  return (frame) => valueOr(read(frame), () => new Undefined(`'${name}' is undefined`));
}

function compileLogic(left: Evaluate, right: Evaluate, operator: "and" | "or"): Evaluate {
  const goesOn = operator === "and";
  return (frame) => {
    const value = left(frame);
    return isTrue(value) === goesOn ? right(frame) : value;
  };
}

function compileConcat(items: readonly Evaluate[]): Evaluate {
  return (frame) => {
    const print = isAutoescaping() ? escape : str;
    let text = "";
    for (const item of items) text = addTexts(text, print(item(frame)));
    return markIfEscaping(text);
  };
}

function compileCompare(
  first: Evaluate,
  others: readonly { readonly operator: CompareOperator; readonly value: Evaluate }[],
): Evaluate {
  return (frame) => {
    let left = first(frame);
    for (const { operator, value } of others) {
      const right = value(frame);
      if (!compareValues(operator, left, right)) return false;
      left = right;
    }
    return true;
  };
}

function compareValues(operator: CompareOperator, left: Value, right: Value): boolean {
  if (operator === "==") return areEqual(left, right);
  if (operator === "!=") return !areEqual(left, right);
  if (operator === "in") return contains(right, left);
  if (operator === "not in") return !contains(right, left);
  return isOrdered(left, operator, right);
}

function compileCondition(
  node: Extract<Expression, { kind: "condition" }>,
  outer: ExpressionContext,
): Evaluate {
  const context = { ...outer, isConditional: true };
  const test = compileExpression(node.test, context);
  const then = compileExpression(node.then, context);
  const otherwise = node.otherwise === undefined
    ? undefined
    : compileExpression(node.otherwise, context);
  const { line } = node;
  return (frame) => {
    if (isTrue(test(frame))) return then(frame);
    if (otherwise !== undefined) return otherwise(frame);
    return new Undefined(
      `the inline if-expression on line ${line} evaluated to false and no else section was defined.`,
    );
  };
}

/** Compiles a filter. @param value the expression to which it is applied. */
export function compileFilter(
  node: FilterNode,
  context: ExpressionContext,
  value: Evaluate,
): Evaluate {
  const { name } = node;
  requireKnown(isFilter(name), `No filter named '${name}'`, context);
  const args = compileArguments(node.args, (each) => compileExpression(each, context));
  return (frame) => applyFilter(name, value(frame), args(frame));
}

function compileTest(
  node: Extract<Expression, { kind: "test" }>,
  context: ExpressionContext,
): Evaluate {
  const { name } = node;
  requireKnown(isTest(name), `No test named '${name}'`, context);
  const [value, args] = [
    compileExpression(node.value, context),
    compileArguments(node.args, (each) => compileExpression(each, context)),
  ];
  return (frame) => applyTest(name, value(frame), args(frame));
}

function requireKnown(
  isKnown: boolean,
  message: string,
  { isConditional }: ExpressionContext,
): void {
  if (!isKnown && !isConditional) raise("TemplateAssertionError", `${message}.`);
}

const NO_ARGUMENTS: Arguments = { positional: [], named: NO_NAMED };

/** Compiles the arguments of a call. */
export function compileArguments(
  { positional, named, rest, restNamed }: CallArguments,
  compile: (node: Expression) => Evaluate,
): (frame: Frame) => Arguments {
  if (
    positional.length === 0 && named.length === 0 && rest === undefined && restNamed === undefined
  ) {
    return () => NO_ARGUMENTS;
  }
  const values = positional.map(compile);
  const pairs = named.map(({ name, value }) => [name, compile(value)] as const);
  requireDistinct(pairs.map(([name]) => name));
  const [others, otherPairs] = [rest, restNamed].map((each) => each && compile(each));
  return (frame) => {
    const all = values.map((each) => each(frame));
    if (others !== undefined) all.push(...iterate(others(frame)));
    if (pairs.length === 0 && otherPairs === undefined) return { positional: all, named: NO_NAMED };
    const byName = new Map<string, Value>();
    for (const [name, value] of pairs) byName.set(name, value(frame));
    if (otherPairs !== undefined) addNamed(byName, otherPairs(frame));
    return { positional: all, named: byName };
  };
}

function requireDistinct(names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice !== undefined) raise("TemplateSyntaxError", `keyword argument repeated: ${twice}`);
}

function addNamed(byName: Map<string, Value>, values: Value): void {
  if (!(values instanceof Dict)) {
    raise("TypeError", `argument after ** must be a mapping, not ${getTypeName(values)}`);
  }
  for (const [key, value] of values.entries()) {
    if (typeof key !== "string") raise("TypeError", "keywords must be strings");
    if (byName.has(key)) {
      raise("TypeError", `got multiple values for keyword argument '${key}'`);
    }
    byName.set(key, value);
  }
}
