/**
 * The destinations of the results of `run`: standard output, a device or pipe, a file, or one file per input.
 *
 * @module
 */
import { basename, dirname, extname, join, resolve } from "node:path";
import type { ModelKind } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { joinBytes } from "../../base/bytes.ts";
import { SOUND_FORMATS } from "../../media/sound_format.ts";
import { writeBytes, writeText } from "../print.ts";
import type { RunInput } from "./input.ts";

/** A destination of results. */
export interface Output {
  /** Writes a part of the result. @throws {StartupError} when bytes would go to a terminal, or cannot be written. */
  write(chunk: string | Uint8Array): void;
  /**
   * Called when everything is written. Only now is an output file created, or its content replaced.
   *
   * @throws {StartupError} as `write` does.
   */
  finish(): void;
}

/** Extensions that files with results may have, by kind of model; text files may have any. */
const EXTENSIONS: Partial<Record<ModelKind, readonly string[]>> = {
  tts: SOUND_FORMATS,
  matting: ["png"],
};

/**
 * Checks the extension of a file.
 *
 * @throws {StartupError} when it promises a format that models of this kind do not produce.
 */
export function requireExtension(kind: ModelKind, path: string): void {
  const extension = extname(path).toLowerCase();
  const written = EXTENSIONS[kind]?.map((each) => `.${each}`);
  if (written === undefined || extension === "" || written.includes(extension)) return;
  throw new StartupError(
    `${path} cannot be written: want a name that ends in ${written.length > 1 ? "one of " : ""}${
      written.join(", ")
    }, saw ${extension}.`,
  );
}

/**
 * Opens an output. Checks at once whether its path can be written, so that no model is loaded in vain. A file stays
 * untouched until the end, so that no failure leaves an empty or incomplete file.
 *
 * @param path `-` or `undefined` for standard output.
 * @throws {StartupError} when it cannot be written.
 */
export async function openOutput(path: string | undefined): Promise<Output> {
  if (path === undefined || path === "-") return { write: writeToStdout, finish: () => {} };
  const stat = await Deno.stat(path).catch(() => undefined);
  if (stat?.isDirectory) {
    throw new StartupError(`${path} cannot be written: it is a folder; name a file in it.`);
  }
  const isDevice = stat !== undefined && !stat.isFile;
  try {
    const file = await Deno.open(path, { write: true, createNew: stat === undefined });
    if (isDevice) return { write: (chunk) => writeChunk(file, chunk), finish: () => file.close() };
    file.close();
    if (stat === undefined) await Deno.remove(path);
  } catch (error) {
    throw new StartupError(`${path} cannot be written: ${describe(error, path)}`);
  }
  const chunks: Uint8Array[] = [];
  return {
    write: (chunk) =>
      chunks.push(typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk),
    finish: () => replaceFile(path, joinBytes(chunks)),
  };
}

function describe(error: unknown, path: string): string {
  if (error instanceof Deno.errors.NotFound) return `there is no folder ${dirname(path)}.`;
  return error instanceof Error ? error.message : String(error);
}

function replaceFile(path: string, bytes: Uint8Array): void {
  try {
    Deno.writeFileSync(path, bytes);
  } catch (error) {
    try {
      Deno.removeSync(path);
    } catch {
      // The file was not created, or cannot be removed either. The first error says why.
    }
    throw new StartupError(`${path} cannot be written: ${(error as Error).message}`);
  }
}

function writeToStdout(chunk: string | Uint8Array): void {
  if (typeof chunk !== "string" && Deno.stdout.isTerminal()) {
    throw new StartupError("The result is binary: name a file for it with -o.");
  }
  writeChunk(Deno.stdout, chunk);
}

function writeChunk(target: typeof Deno.stdout | Deno.FsFile, chunk: string | Uint8Array): void {
  if (typeof chunk === "string") writeText(target, chunk);
  else writeBytes(target, chunk);
}

// Results that are one file per input: in a folder, or under one name with numbers.

/** Whether a path names a folder: it exists as one, or ends in a slash. */
export async function namesFolder(path: string): Promise<boolean> {
  if (/[/\\]$/.test(path)) return true;
  return (await Deno.stat(path).catch(() => undefined))?.isDirectory === true;
}

/**
 * Names the file of each input's result. In a folder, files are named like the inputs; otherwise numbers are added to
 * the name (`cut-1.png`, `cut-2.png`).
 *
 * @throws {StartupError} for standard output, or when a result would overwrite an input.
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
    `${taken.name} would be overwritten by a result: name another folder with -o.`,
  );
}

/** Makes a name unique, as inputs from several folders, or with several extensions, may share one. */
function findUnused(name: string, used: readonly string[]): string {
  const extension = extname(name);
  let unused = name;
  for (let number = 2; used.includes(unused); number++) {
    unused = `${name.slice(0, -extension.length)}-${number}${extension}`;
  }
  return unused;
}

/**
 * Opens an output that writes each chunk to the next of these files, and creates missing folders.
 *
 * @throws {StartupError} when a file cannot be written.
 */
export function openFiles(paths: readonly string[]): Output {
  let index = 0;
  return {
    write: (chunk) => {
      const path = paths[index++]!;
      try {
        Deno.mkdirSync(dirname(path), { recursive: true });
        using file = Deno.openSync(path, { write: true, create: true, truncate: true });
        writeBytes(file, chunk as Uint8Array);
      } catch (error) {
        throw new StartupError(`${path} cannot be written: ${(error as Error).message}`);
      }
    },
    finish: () => {},
  };
}
