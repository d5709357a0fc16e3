/**
 * What `run` does with a model of each kind.
 *
 * @module
 */
import { extname } from "node:path";
import type { ModelKind } from "../../base/config.ts";
import { HearthError, StartupError } from "../../base/errors.ts";
import type { ChatMessage, MessagePart } from "../../models/task.ts";
import { joinBytes } from "../../base/join_bytes.ts";
import { closeWavHeader } from "../../media/sound/pcm_writer.ts";
import { SOUND_FORMATS, type SoundFormat } from "../../media/sound_format.ts";
import { findVoice } from "../../server/http/audio/speech.ts";
import { isPdf } from "../../media/signature.ts";
import { decodeText, isText, type RunInput, toMediaPart } from "./input.ts";
import type { RunSession } from "./timed_session.ts";

/** One use of a model. */
export interface RunTask {
  readonly session: RunSession;
  readonly inputs: readonly RunInput[];
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
  /** Path of the file that is written; standard output if absent. */
  readonly output: string | undefined;
  readonly voice: string | undefined;
  readonly speed: number | undefined;
}

/**
 * Yields the result piece by piece, as it is to be written: text, or the bytes of a file.
 *
 * @throws {StartupError} when the inputs do not suit.
 */
type Runner = (task: RunTask) => AsyncIterable<string | Uint8Array>;

/** Runners by the kind of the loaded model. */
export const RUNNERS: Readonly<Record<ModelKind, Runner>> = {
  text: writeReply,
  vision: writeReplyToImages,
  ocr: writeReadings,
  asr: writeTranscripts,
  tts: writeSpeech,
  matting: writeCutOuts,
  embedding: writeVectors,
  rerank: writeScores,
};

/** The answer to all texts, and to PDF files among them, as one message. */
async function* writeReply(task: RunTask) {
  const parts = task.inputs.map((input): MessagePart =>
    isPdf(input.bytes) ? toMediaPart(input) : { type: "text", text: decodeText(input) }
  );
  const texts = parts.flatMap((part) => part.type === "text" ? [part.text] : []);
  yield* streamReply(task, texts.length === parts.length ? texts.join("\n\n") : parts);
}

/** The answer to one message of texts, images and PDF files, in their order. */
async function* writeReplyToImages(task: RunTask) {
  const content = task.inputs.map((input): MessagePart =>
    isText(input) ? { type: "text", text: decodeText(input) } : toMediaPart(input)
  );
  yield* streamReply(task, content);
}

/** The text of each image or PDF file, with the same instruction; an empty line between two. */
async function* writeReadings(task: RunTask) {
  const { inputs } = task;
  const images = inputs.filter(({ isFile }) => isFile);
  const texts = inputs.filter(({ isFile }) => !isFile);
  if (images.length === 0) {
    throw new StartupError(
      `An OCR model takes images or PDF files, and perhaps a text: -i scan.png; there is no file "${
        texts[0]?.name
      }".`,
    );
  }
  const instruction = texts.map((input) => ({ type: "text", text: decodeText(input) }) as const);
  for (const [index, image] of images.entries()) {
    if (index > 0) yield "\n";
    yield* streamReply(task, [toMediaPart(image), ...instruction]);
  }
}

/** The text of the answer to a message as it is generated, then a line break. */
async function* streamReply(
  { session, temperature, maxTokens }: RunTask,
  content: ChatMessage["content"],
) {
  const events = session.stream({
    type: "chat",
    requestId: "run",
    messages: [{ role: "user", content }],
    options: { temperature, maxTokens, stop: [], n: 1 },
  });
  for await (const event of events) {
    if (event.type === "error") throw HearthError.fromWire(event.error);
    if (event.type === "delta") yield event.text;
    if (event.type === "done") yield "\n";
  }
}

async function* writeTranscripts({ session, inputs, temperature = 0, maxTokens }: RunTask) {
  const text = inputs.find(({ isFile }) => !isFile);
  if (text !== undefined) {
    throw new StartupError(
      `A speech model takes audio files, and there is no file "${text.name}".`,
    );
  }
  for (const { bytes: audio, name: param } of inputs) {
    const events = session.stream({
      type: "transcribe",
      requestId: "run",
      audio,
      param,
      temperature,
      maxTokens,
    });
    let isFirst = true;
    for await (const event of events) {
      if (event.type === "error") throw HearthError.fromWire(event.error);
      if (event.type === "done") yield "\n";
      if (event.type !== "segment") continue;
      yield isFirst ? event.segment.text.trimStart() : event.segment.text;
      isFirst = false;
    }
  }
}

/** A PNG file of each image. */
async function* writeCutOuts({ session, inputs }: RunTask) {
  const text = inputs.find(({ isFile }) => !isFile);
  if (text !== undefined) {
    throw new StartupError(
      `A background-removal model takes images, files: -i photo.jpg; saw "${text.name}", which is no file.`,
    );
  }
  for (const { name: param, bytes: image } of inputs) {
    const task = { type: "matte", requestId: "run", image, param, options: {} } as const;
    yield (await session.answer(task)).png;
  }
}

/** A JSON array per line. */
async function* writeVectors({ session, inputs }: RunTask) {
  const texts = inputs.map(decodeText);
  const task = { type: "embed", requestId: "run", inputs: texts } as const;
  const { vectors, dimensions } = await session.answer(task);
  for (let row = 0; row < inputs.length; row++) {
    const vector = vectors.subarray(row * dimensions, (row + 1) * dimensions);
    yield `${JSON.stringify([...vector])}\n`;
  }
}

/** A line per document, the best first: score, tab, document. */
async function* writeScores({ session, inputs }: RunTask) {
  const [query, ...documents] = inputs.map(decodeText);
  if (query === undefined || documents.length === 0) {
    throw new StartupError(
      "A reranker takes a query and then documents: -i <query> -i <document> …",
    );
  }
  const task = { type: "rerank", requestId: "run", query, documents } as const;
  const { scores, logits } = await session.answer(task);
  const order = [...documents.keys()].sort((a, b) => logits[b]! - logits[a]!);
  for (const index of order) {
    yield `${scores[index]!.toFixed(6)}\t${documents[index]!.replaceAll(/\s+/g, " ")}\n`;
  }
}

/** Parses the name's extension, which is known to be one that is written; WAV without one. */
function parseSoundFormat(output: string | undefined): SoundFormat {
  const extension = extname(output ?? "").slice(1).toLowerCase();
  return SOUND_FORMATS.find((each) => each === extension) ?? "wav";
}

/**
 * A sound file in the format of its name's extension, WAV without one; the length in a WAV's header is set at the end.
 * An input that is not text is a recording whose voice is cloned.
 */
async function* writeSpeech({ session, inputs, output, voice, speed = 1 }: RunTask) {
  const format = parseSoundFormat(output);
  const texts = inputs.filter(isText);
  const [recording, another] = inputs.filter((input) => !isText(input));
  if (texts.length === 0 || another !== undefined || (recording && voice !== undefined)) {
    throw new StartupError(
      "A speech synthesis model takes texts, and a --voice or one recording whose voice to clone.",
    );
  }
  const info = session.requireReady();
  if (recording !== undefined && info.noRecordings !== undefined) {
    throw new StartupError(
      `${recording.name}: the model cannot clone the voice of a recording: ${info.noRecordings}.`,
    );
  }
  const events = session.stream({
    type: "speak",
    requestId: "run",
    text: texts.map(decodeText).join("\n\n"),
    param: texts[0]!.name,
    voice: voice && findVoice(info, voice),
    recording: recording && { audio: recording.bytes, param: recording.name },
    speed,
    format,
    seed: 0,
  });
  const parts: Uint8Array[] = [];
  for await (const event of events) {
    if (event.type === "error") throw HearthError.fromWire(event.error);
    if (event.type === "audio") parts.push(event.bytes);
  }
  const file = joinBytes(parts);
  if (format === "wav") closeWavHeader(file);
  yield file;
}
