/**
 * The voices of a model: those stored in a folder as vectors, `voices/<name>.bin`, little-endian float32, and the one
 * that a request names.
 *
 * @module
 */
import { join } from "node:path";
import { HearthError, StartupError } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { Voice } from "../task.ts";

export interface VectorVoice extends Voice {
  /** f32 `[rows, width]`. */
  readonly style: Float32Array;
}

const VOICE_FILE = /^voices\/([\w.-]+)\.bin$/;

/**
 * Reads a folder's voices, in the order of their names.
 *
 * @param options.width numbers in a row.
 * @param options.languageByPrefix language of a voice by its name; `undefined` skips it.
 * @throws {StartupError} when a file does not hold whole rows, or there is no voice.
 */
export async function readVoices(
  folder: ModelFolder,
  { width, languageByPrefix }: {
    readonly width: number;
    readonly languageByPrefix: (id: string) => string | undefined;
  },
): Promise<VectorVoice[]> {
  const voices: VectorVoice[] = [];
  for (const file of [...folder.files].sort()) {
    const id = VOICE_FILE.exec(file)?.[1];
    const language = id === undefined ? undefined : languageByPrefix(id);
    if (id === undefined || language === undefined) continue;
    const bytes = await Deno.readFile(join(folder.path, file));
    if (bytes.length === 0 || bytes.length % (4 * width) !== 0) {
      throw new StartupError(
        `${folder.path}/${file} has ${bytes.length} bytes; wanted are rows of ${width} numbers of 4 bytes.`,
      );
    }
    voices.push({ id, language, style: new Float32Array(bytes.buffer) });
  }
  if (voices.length > 0) return voices;
  throw new StartupError(
    `${folder.path} has no voice that can be spoken: wanted are files voices/<name>.bin.`,
  );
}

/** The voice of this id; the first if absent. @throws {HearthError} `invalid_value` when there is none. */
export function findVoice(voices: readonly Voice[], id: string | undefined): Voice {
  const voice = id === undefined ? voices[0] : voices.find((each) => each.id === id);
  if (voice !== undefined) return voice;
  const message = id === undefined
    ? "the model has no voice of its own; send a recording of somebody beside the text."
    : `the model has no voice ${JSON.stringify(id)}.`;
  throw new HearthError("invalid_value", `voice: ${message}`, { param: "voice" });
}
