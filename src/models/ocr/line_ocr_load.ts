/**
 * Opens a line OCR model: a detector and recognisers.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { LineClassifier } from "./line_classifier.ts";
import { LineDetector } from "./line_detector.ts";
import { LineOcrModel } from "./line_ocr.ts";
import type { LineOcrConfig } from "./line_ocr_config.ts";
import { LineReader } from "./line_reader.ts";
import { LineRecogniser } from "./line_recogniser.ts";
import { ImagePreprocessor } from "./image_preprocessor.ts";
import type { OpenContext } from "../family.ts";

/** Default of the most requests at a time. */
const MAX_REQUESTS = 4;

/** Readers of a folder's description. */
export type ReadLineOcrConfig = (folder: ModelFolder) => Promise<LineOcrConfig>;

/** @throws {StartupError} when the description is incomplete. */
export async function loadLineOcr(
  { folder, backend, engine: { maxSequences, maxImagePixels }, onProgress }: OpenContext,
  readConfig: ReadLineOcrConfig,
): Promise<LineOcrModel> {
  const config = await readConfig(folder);
  const open = async (file: string) => {
    onProgress({ what: `loading ${file}` });
    try {
      return await backend.openSession(await Deno.readFile(join(folder.path, file)));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new StartupError(`${file} cannot be loaded: ${reason}`, { cause: error });
    }
  };
  const { detection, classification, recognition } = config;
  const detector = new LineDetector({
    backend,
    session: await open(detection.file),
    config: detection,
  });
  const classifier = classification && new LineClassifier({
    backend,
    session: await open(classification.file),
    config: classification,
  });
  const recognisers: LineRecogniser[] = [];
  for (const each of recognition) {
    const session = await open(each.file);
    recognisers.push(new LineRecogniser({ backend, session, config: each }));
  }
  const reader = new LineReader({ detector, classifier, recognisers });
  onProgress({ what: "warming up" });
  await warmUp(reader);
  const imagePreprocessor = await ImagePreprocessor.open({ maxPixels: maxImagePixels });
  return new LineOcrModel({ reader, imagePreprocessor, maxRequests: maxSequences ?? MAX_REQUESTS });
}

/** The first run, before the first request: a blank strip, which every recogniser reads as a line. */
async function warmUp(reader: LineReader): Promise<void> {
  const [width, height] = [320, 32];
  const data = new Uint8Array(width * height * 3).fill(255);
  const { signal } = new AbortController();
  const rows = reader.read({ width, height, channels: 3, data }, { numTop: 0, signal });
  for await (const _ of rows);
}
