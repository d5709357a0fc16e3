/**
 * Loads the parts of the page that few conversations need: separate bundles beside the page's script.
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

/** Loads a part once. If that fails, the next call tries again. */
export function loadPart<Name extends keyof Parts>(name: Name): Promise<Parts[Name]> {
  const known = loading.get(name);
  if (known !== undefined) return known as Promise<Parts[Name]>;
  // The address is in a variable so that the bundler does not resolve the import.
  const address = new URL(`${name}.js`, import.meta.url).href;
  const part = import(address) as Promise<Parts[Name]>;
  loading.set(name, part);
  part.catch(() => loading.delete(name));
  return part;
}
