/**
 * Runs a model of each kind on the inputs of `run`.
 *
 * @module
 */
import { extname } from "node:path";
import type { ModelKind } from "../../base/config.ts";
import { StartupError } from "../../base/errors.ts";
import { requireSuccess } from "../../server/session/task_stream.ts";
import type { ChatMessage, MessagePart } from "../../models/task.ts";
import { joinBytes } from "../../base/bytes.ts";
import { closeWavHeader, SOUND_FORMATS, type SoundFormat } from "../../media/sound_format.ts";
import { findVoice } from "../../server/http/audio/speech.ts";
import { isPdf } from "../../media/file_bytes.ts";
import { decodeText, isText, type RunInput, toMediaPart } from "./input.ts";
import type { RunSession } from "./timed_session.ts";

/** The options of a run. */
export interface RunTask {
  readonly session: RunSession;
  readonly inputs: readonly RunInput[];
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
  /** Path of the file to write; standard output if absent. */
  readonly output: string | undefined;
  readonly voice: string | undefined;
  readonly speed: number | undefined;
}

/**
 * Yields the result chunk by chunk, as it is to be written: text, or the bytes of a file.
 *
 * @throws {StartupError} when the inputs do not suit the model.
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

/** Yields the answer to one message that holds all texts and PDF files. */
async function* writeReply(task: RunTask) {
  const parts = task.inputs.map((input): MessagePart =>
    isPdf(input.bytes) ? toMediaPart(input, {}) : { type: "text", text: decodeText(input) }
  );
  const texts = parts.flatMap((part) => part.type === "text" ? [part.text] : []);
  yield* streamReply(task, texts.length === parts.length ? texts.join("\n\n") : parts);
}

/** Yields the answer to one message that holds all inputs in order: texts, images, PDF files, and sounds if possible. */
async function* writeReplyToImages(task: RunTask) {
  const info = task.session.requireReady();
  const content = task.inputs.map((input): MessagePart =>
    isText(input) ? { type: "text", text: decodeText(input) } : toMediaPart(input, info)
  );
  yield* streamReply(task, content);
}

/** Yields the text of each image or PDF file, read with the same instruction, separated by empty lines. */
async function* writeReadings(task: RunTask) {
  const { inputs } = task;
  const images = inputs.filter(({ isFile }) => isFile);
  const texts = inputs.filter(({ isFile }) => !isFile);
  if (images.length === 0) {
    throw new StartupError(
      `An OCR model takes images or PDF files, and perhaps a text: -i scan.png. There is no file "${
        texts[0]?.name
      }".`,
    );
  }
  const instruction = texts.map((input) => ({ type: "text", text: decodeText(input) }) as const);
  for (const [index, image] of images.entries()) {
    if (index > 0) yield "\n";
    yield* streamReply(task, [toMediaPart(image, {}), ...instruction]);
  }
}

/** Yields the text of the answer to a message as it is generated, then a line break. */
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
  for await (const event of requireSuccess(events)) {
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
    for await (const event of requireSuccess(events)) {
      if (event.type === "done") yield "\n";
      if (event.type !== "segment") continue;
      yield isFirst ? event.segment.text.trimStart() : event.segment.text;
      isFirst = false;
    }
  }
}

/** Yields a PNG file of each image. */
async function* writeCutOuts({ session, inputs }: RunTask) {
  const text = inputs.find(({ isFile }) => !isFile);
  if (text !== undefined) {
    throw new StartupError(
      `A background-removal model takes image files: -i photo.jpg. There is no file "${text.name}".`,
    );
  }
  for (const { name: param, bytes: image } of inputs) {
    const task = { type: "matte", requestId: "run", image, param, options: {} } as const;
    yield (await session.answer(task)).png;
  }
}

/** Yields one JSON array per line. */
async function* writeVectors({ session, inputs }: RunTask) {
  const texts = inputs.map(decodeText);
  const task = { type: "embed", requestId: "run", inputs: texts } as const;
  const { vectors, dimensions } = await session.answer(task);
  for (let row = 0; row < inputs.length; row++) {
    const vector = vectors.subarray(row * dimensions, (row + 1) * dimensions);
    yield `${JSON.stringify([...vector])}\n`;
  }
}

/** Yields one line per document, the best first: score, tab, document. */
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

/** Returns the audio format for the name's extension, which was checked before; WAV without an extension. */
function parseSoundFormat(output: string | undefined): SoundFormat {
  const extension = extname(output ?? "").slice(1).toLowerCase();
  return SOUND_FORMATS.find((each) => each === extension) ?? "wav";
}

/**
 * Yields an audio file in the format of the name's extension, or WAV without one. The length in a WAV header is filled
 * in at the end. An input that is not text is a recording whose voice is cloned.
 */
async function* writeSpeech({ session, inputs, output, voice, speed = 1 }: RunTask) {
  const format = parseSoundFormat(output);
  const texts = inputs.filter(isText);
  const [recording, another] = inputs.filter((input) => !isText(input));
  if (texts.length === 0 || another !== undefined || (recording && voice !== undefined)) {
    throw new StartupError(
      "A speech synthesis model takes texts, and either a --voice or one recording whose voice to clone.",
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
  for await (const event of requireSuccess(events)) {
    if (event.type === "audio") parts.push(event.bytes);
  }
  const file = joinBytes(parts);
  if (format === "wav") closeWavHeader(file);
  yield file;
}
