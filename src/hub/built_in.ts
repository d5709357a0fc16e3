/**
 * The models that come with Hearth: the folders of `models/` beside the source, or inside the compiled program.
 *
 * @module
 */
import { fileURLToPath } from "node:url";

/** Served when no model is named. */
export const DEFAULT_MODEL = "hearth-demo-chat";

/** Who owns the built-in models. */
export const BUILT_IN_OWNER = "hearth";

const MODELS_FOLDER = fileURLToPath(new URL("../../models/", import.meta.url));

/** The names of all built-in models. */
export async function listBuiltIn(): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(MODELS_FOLDER));
  return entries.filter((entry) => entry.isDirectory).map((entry) => entry.name).sort();
}

/** The folder of a built-in model; `undefined` if none has this name. */
export async function findBuiltIn(name: string): Promise<string | undefined> {
  return (await listBuiltIn()).includes(name) ? `${MODELS_FOLDER}${name}` : undefined;
}
