/**
 * Variables: how they are read, written, assigned to, and initialised when a scope is entered.
 *
 * @module
 */
import type { BodyContext, Frame } from "./frame.ts";
import type { Load, Reference, Scope } from "./symbols.ts";
import { iterate } from "../python/collections.ts";
import { Namespace, raise, type Value } from "../python/values.ts";
import type { Expression, Target } from "../syntax/nodes.ts";

/** Compiles reading a variable; it gives `undefined` if the variable has no value. */
export function compileRead({ owner, slot }: Reference): (frame: Frame) => Value | undefined {
  return (frame) => {
    let holder = frame;
    while (holder.owner !== owner) holder = holder.parent!;
    return holder.slots[slot];
  };
}

/** Compiles writing a variable. */
export function compileWrite(
  { owner, slot }: Reference,
): (frame: Frame, value: Value | undefined) => void {
  return (frame, value) => {
    let holder = frame;
    while (holder.owner !== owner) holder = holder.parent!;
    holder.slots[slot] = value;
  };
}

/** Compiles the initialisation of a scope's variables. */
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

/** Compiles an assignment of a value. */
export function compileAssign(
  target: Target | Expression,
  context: BodyContext,
): (frame: Frame, value: Value) => void {
  if (target.kind === "name") {
    const { name } = target;
    const write = compileWrite(context.scope.find(name)!);
    if (!context.isTop) return write;
    return (frame, value) => {
      write(frame, value);
      frame.variables.set(name, value);
    };
  }
  if (target.kind === "namespace") {
    const read = compileRead(context.scope.find(target.name)!);
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
  const all = target.items.map((each) => compileAssign(each, context));
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
