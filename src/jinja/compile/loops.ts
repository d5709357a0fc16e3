/**
 * Compiles `for` loops.
 *
 * @module
 */
import { descend } from "../meter.ts";
import { markIfEscaping } from "../python/repr.ts";
import { areEqual } from "../python/compare.ts";
import { getLength, isTrue, iterate } from "../python/collections.ts";
import {
  type Arguments,
  Callable,
  PyIterator,
  PyObject,
  raise,
  Tuple,
  Undefined,
  type Value,
  valueOr,
} from "../python/values.ts";
import {
  allStatements,
  assignsName,
  type ForNode,
  listTargets,
  readsName,
} from "../syntax/nodes.ts";
import { compileExpression } from "./expressions.ts";
import {
  type BodyContext,
  compileAssign,
  type CompileBody,
  compileEnter,
  compileWrite,
  type Execute,
  Frame,
  type Signal,
  toExpressionContext,
} from "./frame.ts";
import { FunctionSlots, Scope } from "./symbols.ts";

type Run = (frame: Frame, values: Value, recursion?: Recursion) => Signal;

/** How a recursive loop calls itself. */
interface Recursion {
  readonly depth: number;
  readonly recurse: (values: Value) => string;
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
    const render = (depth: number) => (inner: Value): string =>
      descend(() => {
        const own = new Frame(owner, frame.variables, frame);
        run(own, inner, { depth, recurse: render(depth + 1) });
        return own.output.finish();
      });
    frame.output.write(render(0)(values(frame)));
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

/** Compiles the condition of a loop (`for … if`), which is evaluated when the loop requests the next value. */
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

/** The variable `loop` of a `for` loop. */
class LoopContext extends PyObject {
  readonly typeName = "LoopContext";
  readonly #given: Value;
  #values: Iterator<Value>;
  readonly #recursion: Recursion | undefined;
  #index = -1;
  #length: number | undefined;
  /** The value after the current one, if it has been read ahead. */
  #next: IteratorResult<Value> | undefined;
  #current: Value | undefined;
  #previous: Value | undefined;
  #changed: Tuple | undefined;

  constructor(values: Value, recursion: Recursion | undefined) {
    super();
    this.#given = values;
    this.#values = iterate(values);
    this.#recursion = recursion;
  }

  *iterations(): Generator<Value> {
    for (;;) {
      const next = this.#next ?? this.#values.next();
      this.#next = undefined;
      if (next.done === true) return;
      this.#index++;
      this.#previous = this.#current;
      this.#current = next.value;
      yield next.value;
    }
  }

  #peek(): IteratorResult<Value> {
    return this.#next ??= this.#values.next();
  }

  /** Counts the values. Iterators without a length are read to their end. */
  #countAll(): number {
    if (this.#length !== undefined) return this.#length;
    const known = getLength(this.#given);
    if (known !== undefined) return this.#length = known;
    const rest: Value[] = [];
    for (let next = this.#values.next(); next.done !== true; next = this.#values.next()) {
      rest.push(next.value);
    }
    this.#values = rest[Symbol.iterator]();
    const isPeeked = this.#next !== undefined && this.#next.done !== true;
    return this.#length = rest.length + this.#index + 1 + Number(isPeeked);
  }

  override describe(): string {
    return `<LoopContext ${this.#index + 1}/${this.#countAll()}>`;
  }

  override attribute(name: string): Value | undefined {
    switch (name) {
      case "index":
        return this.#index + 1;
      case "index0":
        return this.#index;
      case "length":
      case "__len__":
        return this.#countAll();
      case "revindex":
        return this.#countAll() - this.#index;
      case "revindex0":
        return this.#countAll() - this.#index - 1;
      case "first":
        return this.#index === 0;
      case "last":
        return this.#peek().done === true;
      case "depth":
        return (this.#recursion?.depth ?? 0) + 1;
      case "depth0":
        return this.#recursion?.depth ?? 0;
      case "previtem":
        return valueOr(this.#previous, () => new Undefined("there is no previous item"));
      case "nextitem": {
        const next = this.#peek();
        return next.done === true ? new Undefined("there is no next item") : next.value;
      }
      case "cycle":
        return new Callable("cycle", ({ positional }) => this.#cycle(positional));
      case "changed":
        return new Callable("changed", ({ positional }) => this.#hasChanged(positional));
      default:
        return undefined;
    }
  }

  #cycle(values: readonly Value[]): Value {
    if (values.length === 0) raise("TypeError", "no items for cycling given");
    return values[this.#index % values.length]!;
  }

  #hasChanged(values: readonly Value[]): boolean {
    const now = new Tuple(values);
    if (this.#changed !== undefined && areEqual(this.#changed, now)) return false;
    this.#changed = now;
    return true;
  }

  /** `loop(values)` in a recursive loop. */
  call({ positional }: Arguments): Value {
    if (this.#recursion === undefined) {
      raise("TypeError", "The loop must have the 'recursive' marker to be called recursively.");
    }
    if (positional.length !== 1) raise("TypeError", "loop() takes one argument");
    return markIfEscaping(this.#recursion.recurse(positional[0]!));
  }
}
