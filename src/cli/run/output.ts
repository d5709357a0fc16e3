/**
 * Where `run` writes its result: standard output, a device or pipe, or a file.
 *
 * @module
 */
import { dirname, extname } from "node:path";
import type { ModelKind } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { joinBytes } from "../../base/join_bytes.ts";
import { SOUND_FORMATS } from "../../media/sound_format.ts";
import { writeBytes, writeText } from "../../base/write_text.ts";

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
