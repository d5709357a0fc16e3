/**
 * The inputs of `run`: texts, files, standard input.
 *
 * @module
 */
import { StartupError } from "../errors.ts";

/** One input. */
export interface RunInput {
  /** As the user wrote it. */
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly isFile: boolean;
}

/**
 * Reads the inputs: each is a file if there is one of this name, else the text itself; `-` is standard input, as none is.
 *
 * @throws {StartupError} when there is no input, or a file cannot be read.
 */
export async function readInputs(given: readonly string[]): Promise<readonly RunInput[]> {
  if (given.filter((name) => name === "-").length > 1) {
    throw new StartupError("Standard input is read once; want -i - once.");
  }
  if (given.length > 0) return await Promise.all(given.map(readInput));
  return [await readStdin()];
}

async function readStdin(): Promise<RunInput> {
  if (Deno.stdin.isTerminal()) {
    throw new StartupError("There is no input: give a text or a file with -i.");
  }
  const bytes = new Uint8Array(await new Response(Deno.stdin.readable).arrayBuffer());
  return { name: "standard input", bytes, isFile: true };
}

/** Whether an input is text; no image file is, by its first bytes. */
export function isText({ bytes }: RunInput): boolean {
  try {
    return !new TextDecoder("utf-8", { fatal: true }).decode(bytes).includes("\0");
  } catch {
    return false;
  }
}

/** The text of an input. @throws {StartupError} when it is not text. */
export function textOf({ name, bytes }: RunInput): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).trim();
  } catch {
    throw new StartupError(`${name} is not UTF-8 text, which this model needs.`);
  }
}

async function readInput(name: string): Promise<RunInput> {
  if (name === "-") return await readStdin();
  const isFile = (await Deno.stat(name).catch(() => undefined))?.isFile ?? false;
  if (!isFile) return { name, bytes: new TextEncoder().encode(name), isFile };
  try {
    return { name, bytes: await Deno.readFile(name), isFile };
  } catch (error) {
    throw new StartupError(`${name} cannot be read: ${(error as Error).message}`);
  }
}
