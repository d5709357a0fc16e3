/**
 * A loaded model of any kind as the worker sees it, what a loader is given to open it, and requests to its tokenizer.
 *
 * @module
 */
import type { Registry } from "prom-client";
import type { Dtype, EngineSettings, ModelKind } from "../base/config.ts";
import { HearthError, type Refusal } from "../base/errors.ts";
import type {
  Conversation,
  DetokenizeTask,
  Task,
  TaskEvent,
  TokenizeTask,
  TokenTaskEvent,
  Voice,
  VoiceWindows,
} from "./task.ts";
import type { TextTokenizer } from "./text/tokenizer.ts";
import type { Backend } from "../device/backend.ts";
import type { ModelFolder } from "../hub/model_folder.ts";
import type { ChosenGraphs } from "./folder/graph_choice.ts";

/** A model that is ready to work. */
export interface Model {
  readonly kind: ModelKind;
  readonly dtype: Dtype;
  /** Maximum number of tokens of prompt and completion together; absent if the kind has no such limit. */
  readonly contextLength: number | undefined;
  /** The context length, lowered to what fits into the KV cache. */
  readonly maxModelLength?: number | undefined;
  /** Maximum number of requests running at once. */
  readonly maxSequences: number;
  /** Codes of the languages that it recognises, as far as known; absent unless it recognises speech. */
  readonly languages?: readonly string[] | undefined;
  /** The windows of its voice activity model; absent if it has none. */
  readonly voiceActivity?: VoiceWindows | undefined;
  /** Its voices, the default first; absent unless it synthesizes speech. */
  readonly voices?: readonly Voice[] | undefined;
  /** Why a speech synthesis model cannot clone voices; absent if it can. */
  readonly noRecordings?: Refusal | undefined;
  /** Whether its chat answers are lines of text read from an image, without sampling. */
  readonly readsLines?: boolean | undefined;
  /** Whether messages may hold sounds. */
  readonly takesAudio?: boolean | undefined;
  /** Its tokenizer; absent if the API does not expose it. */
  readonly tokenizer?:
    | Pick<TextTokenizer, "decodeAll" | "encodeInSlices" | "tokenTexts" | "vocabSize">
    | undefined;
  /** Renders a conversation as text; absent if the model does not chat. */
  render?(chat: Conversation): string;
  readonly metrics: Registry;
  /**
   * Starts a task. Its events are passed to `emit` in order, the last one being `done` or `error`. A model that streams
   * long answers awaits the result of `emit`, which resolves when a slow reader has caught up.
   *
   * @param task a task of a type that the model's kind serves.
   * @returns a function that cancels the task: nothing is emitted afterwards, and its resources are free before the
   * next step.
   */
  start(task: Task, emit: (event: TaskEvent) => Promise<void>): () => void;
  /** Does work that the first request would otherwise wait for. Called once, when the model is ready and idle. */
  prepare?(): Promise<void>;
  dispose(): Promise<void>;
}

/** @throws {HearthError} `unsupported_by_model` when the task is of another type. */
export function requireTask<T extends Task["type"]>(
  task: Task,
  type: T,
): asserts task is Extract<Task, { type: T }> {
  if (task.type === type) return;
  throw new HearthError(
    "unsupported_by_model",
    `The loaded model takes ${type} tasks, not ${task.type} tasks.`,
  );
}

export interface LoadProgress {
  /** The current step, in words: `reading onnx/model_q4.onnx`. */
  readonly what: string;
  /** Progress from 0 to 1, if known; for a download, over all its files. */
  readonly fraction?: number | undefined;
  /** Details: `238 MB of 568 MB, 12.4 MB/s, 27 s left`. */
  readonly detail?: string | undefined;
}

export interface OpenContext {
  readonly folder: ModelFolder;
  readonly graphs: ChosenGraphs;
  readonly backend: Backend;
  readonly engine: EngineSettings;
  /** The model's id. */
  readonly modelName: string;
  /** Folder of a voice activity model, for speech recognition. */
  readonly vadFolder?: string | undefined;
  /** Folder of a speaker-embedding model, for speech synthesis. */
  readonly speakerEncoderFolder?: string | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
}

/** Longest text that is tokenized. Tokenizing it takes seconds, during which other requests are slower. */
const MAX_CHARACTERS = 1_000_000;

/**
 * Answers a request to the tokenizer of a model of any kind, yielding to the thread's other work.
 *
 * @throws {HearthError} `unsupported_by_model` if the model has no tokenizer or no chat template; `invalid_value` for
 * unknown tokens and for texts that are too long.
 * @throws the signal's reason.
 */
export async function answerTokens(
  model: Model,
  task: TokenizeTask | DetokenizeTask,
  signal: AbortSignal,
): Promise<TokenTaskEvent> {
  const { tokenizer } = model;
  if (tokenizer === undefined) {
    throw new HearthError(
      "unsupported_by_model",
      `The API does not expose the tokenizer of the loaded model (kind ${model.kind}).`,
    );
  }
  if (task.type === "detokenize") {
    const { tokens } = task;
    requireTokenIds(tokens, tokenizer.vocabSize, (index) => `tokens[${index}]`);
    return { type: "done", tokens, text: tokenizer.decodeAll([...tokens]) };
  }
  const text = renderText(task, model);
  if (text.length > MAX_CHARACTERS) {
    throw new HearthError(
      "invalid_value",
      `The text has ${text.length} characters; at most ${MAX_CHARACTERS} are tokenized at once.`,
    );
  }
  const hasSpecial = task.chat === undefined && task.hasSpecial;
  const tokens = task.onlyRenders
    ? []
    : await tokenizer.encodeInSlices(text, { hasSpecial, isPrompt: false, signal });
  const pieces = task.withPieces ? tokens.map((id) => tokenizer.tokenTexts.of(id)) : undefined;
  return { type: "done", tokens, pieces, text };
}

/** @throws {HearthError} `invalid_value` naming the first id that is not in the vocabulary. */
export function requireTokenIds(
  ids: readonly number[],
  vocabSize: number,
  nameParam: (index: number) => string,
): void {
  const bad = ids.findIndex((id) => id >= vocabSize);
  if (bad < 0) return;
  const param = nameParam(bad);
  throw new HearthError(
    "invalid_value",
    `${param}: want a token id from 0 to ${vocabSize - 1}, saw ${ids[bad]}. ` +
      "Ids of another model's tokenizer have no meaning here: send text instead " +
      "(LangChain: check_embedding_ctx_length=False).",
    { param },
  );
}

function renderText({ text, chat }: TokenizeTask, model: Model): string {
  if (chat === undefined) return text;
  if (model.render !== undefined) return model.render(chat);
  throw new HearthError(
    "unsupported_by_model",
    "messages: the loaded model does not render conversations.",
    { param: "messages" },
  );
}
