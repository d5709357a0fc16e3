/**
 * Assigns to names, tuples of names, and variables of a namespace.
 *
 * @module
 */
import { iterate } from "../python/iterate.ts";
import { Namespace, type Value } from "../python/values.ts";
import type { Expression, Target } from "../syntax/nodes.ts";
import { raise } from "../template_error.ts";
import type { BodyContext } from "./body_place.ts";
import { compileRead, compileWrite } from "./expressions.ts";
import type { Frame } from "./frame.ts";

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
