import { compileRead, compileWrite } from "./expressions.ts";
import type { Frame } from "./frame.ts";
import type { Load, Reference, Scope } from "./symbols.ts";

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
