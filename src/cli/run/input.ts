/**
 * The inputs of `run`: texts, files, standard input.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { isAudio } from "../../media/audio.ts";
import { countPixels } from "../../media/image.ts";
import { isPdf } from "../../media/file_bytes.ts";
import type { AudioPart, DocumentPart, ImagePart } from "../../models/task.ts";
import type { ModelInfo } from "../../worker/protocol.ts";

export interface RunInput {
  /** The input as the user wrote it. */
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly isFile: boolean;
}

/** Matches the extensions of files that models take, and other common extensions. */
const EXTENSION = new RegExp(
  "\\.(txt|md|json|jsonl|csv|html|xml|pdf|" +
    "wav|mp3|flac|ogg|oga|opus|m4a|m4b|aac|aiff?|aifc|mp4|mov|webm|mka|mkv|amr|caf|wma|" +
    "jpe?g|png|webp|gif|avif|tiff?|bmp|heic|svg|ico)$",
  "i",
);

/**
 * Reads the inputs. Each is a file if one with this name exists, or else the text itself, unless it looks like a path.
 * `-` means standard input, which is also read if there are no inputs.
 *
 * @throws {StartupError} when there is no input, it is empty, or a file is missing or cannot be read.
 */
export async function readInputs(given: readonly string[]): Promise<readonly RunInput[]> {
  if (given.filter((name) => name === "-").length > 1) {
    throw new StartupError("Standard input can only be read once: give -i - once.");
  }
  const inputs = given.length > 0 ? await Promise.all(given.map(readInput)) : [await readStdin()];
  for (const input of inputs) requireContent(input);
  return inputs;
}

/** Refuses an empty input, which usually comes from an unset variable of a shell script or a command that failed. */
function requireContent(input: RunInput): void {
  if (!isText(input) || decodeText(input) !== "") return;
  const name = input.isFile ? input.name : `-i "${input.name}"`;
  throw new StartupError(`The input is empty: ${name}. Give a text or a file with -i.`);
}

/**
 * Whether a text is probably the path of a file: one word with a slash or a known extension, or several words with a
 * slash in the first and such an extension at the end. Web addresses are not paths.
 */
export function looksLikePath(text: string, os: typeof Deno.build.os = Deno.build.os): boolean {
  if (/[\r\n]/.test(text) || /^[a-z][a-z\d+.-]+:\/\//i.test(text)) return false;
  const separator = os === "windows" ? /[/\\]/ : /\//;
  const [first = ""] = text.split(/\s/, 1);
  const isWord = first === text;
  return separator.test(first) ? isWord || EXTENSION.test(text) : isWord && EXTENSION.test(text);
}

async function readStdin(): Promise<RunInput> {
  if (Deno.stdin.isTerminal()) {
    throw new StartupError("There is no input: give a text or a file with -i.");
  }
  const bytes = new Uint8Array(await new Response(Deno.stdin.readable).arrayBuffer());
  return { name: "standard input", bytes, isFile: true };
}

/** Whether an input is text: UTF-8 without null characters, and not a PDF file. */
export function isText({ bytes }: RunInput): boolean {
  // Some PDF files consist of ASCII only.
  if (isPdf(bytes)) return false;
  try {
    return !new TextDecoder("utf-8", { fatal: true }).decode(bytes).includes("\0");
  } catch {
    return false;
  }
}

/** Decodes the text of an input. @throws {StartupError} when it is not text. */
export function decodeText({ name, bytes }: RunInput): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).trim();
  } catch {
    throw new StartupError(`${name} is not UTF-8 text, which this model needs.`);
  }
}

async function readInput(name: string): Promise<RunInput> {
  if (name === "-") return await readStdin();
  const found = await Deno.stat(name).catch((error: Error) => error);
  if (!(found instanceof Error) && !found.isDirectory) return await readFile(name);
  if (looksLikePath(name)) throw new StartupError(explainNoFile(name, found));
  return { name, bytes: new TextEncoder().encode(name), isFile: false };
}

async function readFile(name: string): Promise<RunInput> {
  try {
    return { name, bytes: await Deno.readFile(name), isFile: true };
  } catch (error) {
    throw new StartupError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

function explainNoFile(name: string, found: Deno.FileInfo | Error): string {
  if (!(found instanceof Error)) return `${name} is a folder; name a file in it.`;
  if (found instanceof Deno.errors.PermissionDenied) {
    return `${name} cannot be read: ${found.message}`;
  }
  return `There is no file ${name}. If that is a text rather than a path, send it through standard input: -i -.`;
}

/** A part of a message that holds a file. */
export type FilePart = AudioPart | DocumentPart | ImagePart;

/**
 * Converts a file to a part of a message: a PDF, a sound if the model takes sounds, or else an image.
 *
 * @param file.name name of the file, for error messages.
 */
export function toMediaPart(
  { name: param, bytes }: { readonly name: string; readonly bytes: Uint8Array<ArrayBuffer> },
  { takesAudio = false }: Pick<ModelInfo, "takesAudio">,
): FilePart {
  if (isPdf(bytes)) return { type: "document", bytes, param };
  const isSound = takesAudio && countPixels(bytes) === 0 && isAudio(bytes);
  return { type: isSound ? "audio" : "image", bytes, param };
}
