/**
 * Where the links of a model's folder may lead.
 *
 * @module
 */
import { isAbsolute, join, relative, sep } from "node:path";
import { StartupError } from "./errors.ts";

/** A folder of the Hugging Face cache, or one within it. */
const SNAPSHOT = /^(.*[\\/]models--[^\\/]+)[\\/]snapshots[\\/][^\\/]+/;

/**
 * Resolves the path of a model's file, which must lie in the model's folder: through a link that leads out of it, a
 * downloaded folder could have any file of this machine read. In a hub cache each file is a link to its repository's
 * blobs, and those may be read.
 *
 * @param path of the file or subfolder.
 * @param folder of the model.
 * @throws {StartupError} when it lies elsewhere.
 * @throws {Deno.errors.NotFound} when it does not exist.
 */
export async function requireOwnFile(path: string, folder: string): Promise<string> {
  const [real, home] = [await Deno.realPath(path), await Deno.realPath(folder)];
  const [, repository] = SNAPSHOT.exec(home) ?? [];
  const isOwn = isWithin(real, home) ||
    (repository !== undefined && isWithin(real, join(repository, "blobs")));
  if (isOwn) return real;
  throw new StartupError(
    `${path} is a link that leads out of the model's folder, and is not followed: ` +
      "put the file itself in its place, or a hard link.",
  );
}

function isWithin(path: string, folder: string): boolean {
  const steps = relative(folder, path);
  return steps !== ".." && !steps.startsWith(`..${sep}`) && !isAbsolute(steps);
}
