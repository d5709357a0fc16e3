/**
 * Tasks for a model, and their events: plain data sent between threads.
 *
 * @module
 */
import type { ChatEvent, ChatTask } from "./tasks/chat.ts";
import type {
  DetokenizeTask,
  EmbedEvent,
  EmbedTask,
  RerankEvent,
  RerankTask,
  TokenizeTask,
  TokenTaskEvent,
} from "./tasks/texts.ts";
import type { SpeakEvent, SpeakTask, TranscribeEvent, TranscribeTask } from "./tasks/speech.ts";
import type { MatteEvent, MatteTask } from "./tasks/matte.ts";

export type * from "./tasks/ending.ts";
export type * from "./tasks/chat.ts";
export type * from "./tasks/texts.ts";
export type * from "./tasks/speech.ts";
export type * from "./tasks/matte.ts";

/** A task for the model. */
export type Task =
  | ChatTask
  | DetokenizeTask
  | EmbedTask
  | MatteTask
  | RerankTask
  | SpeakTask
  | TokenizeTask
  | TranscribeTask;

/** The events of a task, by its type. The last event of a request is `done` or `error`. */
interface EventsByType {
  readonly chat: ChatEvent;
  readonly detokenize: TokenTaskEvent;
  readonly embed: EmbedEvent;
  readonly matte: MatteEvent;
  readonly rerank: RerankEvent;
  readonly speak: SpeakEvent;
  readonly tokenize: TokenTaskEvent;
  readonly transcribe: TranscribeEvent;
}

/** Worker to server, on the port of a task of type `T`. */
export type EventOf<T extends Task> = EventsByType[T["type"]];

/** An event of any task. */
export type TaskEvent = EventOf<Task>;
