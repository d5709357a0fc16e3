/**
 * Loads the parts of the page that few conversations need: bundles of their own, beside the page's script.
 *
 * @module
 */

/** The parts, by the names of their files in `lazy/`. */
interface Parts {
  readonly code_colours: typeof import("./lazy/code_colours.ts");
  readonly formulas: typeof import("./lazy/formulas.ts");
  readonly mcp: typeof import("./lazy/mcp.ts");
}

const loading = new Map<keyof Parts, Promise<unknown>>();

/** Loads a part once. One that could not be loaded is tried again the next time. */
export function loadPart<Name extends keyof Parts>(name: Name): Promise<Parts[Name]> {
  const known = loading.get(name);
  if (known !== undefined) return known as Promise<Parts[Name]>;
  // An address in a variable: the bundler is to leave it alone.
  const address = new URL(`${name}.js`, import.meta.url).href;
  const part = import(address) as Promise<Parts[Name]>;
  loading.set(name, part);
  part.catch(() => loading.delete(name));
  return part;
}
