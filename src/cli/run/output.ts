/**
 * Where `run` writes its results: standard output, a device or pipe, a file, or a file for each input.
 *
 * @module
 */
import { basename, dirname, extname, join, resolve } from "node:path";
import type { ModelKind } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { joinBytes } from "../../base/join_bytes.ts";
import { SOUND_FORMATS } from "../../media/sound_format.ts";
import { writeBytes, writeText } from "../../base/write_text.ts";
import type { RunInput } from "./input.ts";

/** Where results go. */
export interface Output {
  /** @throws {StartupError} where bytes would end up on a terminal, or cannot be written. */
  write(piece: string | Uint8Array): void;
  /** Called when all is written; a file appears, or its content is replaced, only now. @throws as `write`. */
  finish(): void;
}

/** Extensions of the files that are written, by kind; those with text may be called anything. */
const EXTENSIONS: Partial<Record<ModelKind, readonly string[]>> = {
  tts: SOUND_FORMATS,
  matting: ["png"],
};

/** @throws {StartupError} when the name's extension promises what a model of this kind does not write. */
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
 * Looks at once whether the path can be written, before a model is loaded for it, and leaves it as it is until the end:
 * no failure leaves an empty or half a file.
 *
 * @param path `-` is standard output, as no path is.
 * @throws {StartupError} when it cannot.
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
    if (isDevice) return { write: (piece) => writeChunk(file, piece), finish: () => file.close() };
    file.close();
    if (stat === undefined) await Deno.remove(path);
  } catch (error) {
    throw new StartupError(`${path} cannot be written: ${describe(error, path)}`);
  }
  const pieces: Uint8Array[] = [];
  return {
    write: (piece) =>
      pieces.push(typeof piece === "string" ? new TextEncoder().encode(piece) : piece),
    finish: () => replaceFile(path, joinBytes(pieces)),
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
      // It was not made, or cannot be removed either: the error above says why.
    }
    throw new StartupError(`${path} cannot be written: ${(error as Error).message}`);
  }
}

function writeToStdout(piece: string | Uint8Array): void {
  if (typeof piece !== "string" && Deno.stdout.isTerminal()) {
    throw new StartupError("The result is binary: name an output file with -o.");
  }
  writeChunk(Deno.stdout, piece);
}

function writeChunk(target: typeof Deno.stdout | Deno.FsFile, piece: string | Uint8Array): void {
  if (typeof piece === "string") writeText(target, piece);
  else writeBytes(target, piece);
}

// Where `run` writes results that are a file for each input: into a folder, or under one name
// with numbers.

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
