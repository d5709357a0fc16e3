/**
 * Where `run` writes results that are a file for each input: into a folder, or under one name with numbers.
 *
 * @module
 */
import { basename, dirname, extname, join, resolve } from "node:path";
import { StartupError } from "../../base/errors.ts";
import { writeBytes } from "../../base/write_text.ts";
import type { RunInput } from "./input.ts";
import type { Output } from "./output.ts";

/** Whether a path names a folder: one that there is, or by a slash at its end. */
export async function namesFolder(path: string): Promise<boolean> {
  if (/[/\\]$/.test(path)) return true;
  return (await Deno.stat(path).catch(() => undefined))?.isDirectory === true;
}

/**
 * Names the file of each input's result. A folder gets files that are called as the inputs; a name gets numbers
 * (`cut-1.png`, `cut-2.png`).
 *
 * @throws {StartupError} for standard output, or when a result would take the place of an input.
 */
export async function nameResults(
  path: string | undefined,
  { inputs, extension }: { readonly inputs: readonly RunInput[]; readonly extension: string },
): Promise<string[]> {
  if (path === undefined || path === "-") {
    throw new StartupError(
      `There are ${inputs.length} results: name a folder for them with -o, such as -o cut/.`,
    );
  }
  const isFolder = await namesFolder(path) || extname(path) === "";
  const stem = basename(path, extname(path));
  const names = inputs.map(({ name }, index) =>
    isFolder
      ? join(path, `${basename(name, extname(name))}${extension}`)
      : join(dirname(path), `${stem}-${index + 1}${extension}`)
  );
  const results: string[] = [];
  for (const name of names) results.push(findUnused(name, results));
  const taken = inputs.find(({ name }) =>
    results.some((result) => resolve(result) === resolve(name))
  );
  if (taken === undefined) return results;
  throw new StartupError(
    `${taken.name} would be replaced by a result: name another folder with -o.`,
  );
}

/** Inputs of one name in several folders, or with several extensions, have several results. */
function findUnused(name: string, used: readonly string[]): string {
  const extension = extname(name);
  let unused = name;
  for (let number = 2; used.includes(unused); number++) {
    unused = `${name.slice(0, -extension.length)}-${number}${extension}`;
  }
  return unused;
}

/**
 * Writes each piece to the next of these files, once it is complete; folders that are missing are made.
 *
 * @throws {StartupError} when it cannot be written.
 */
export function openFiles(paths: readonly string[]): Output {
  let index = 0;
  return {
    write: (piece) => {
      const path = paths[index++]!;
      try {
        Deno.mkdirSync(dirname(path), { recursive: true });
        using file = Deno.openSync(path, { write: true, create: true, truncate: true });
        writeBytes(file, piece as Uint8Array);
      } catch (error) {
        throw new StartupError(`${path} cannot be written: ${(error as Error).message}`);
      }
    },
    finish: () => {},
  };
}
