/**
 * What a request asks of a model, and the events that come back: plain data that crosses between threads.
 *
 * @module
 */
import type { ChatEvent, ChatTask } from "./tasks/chat.ts";
import type { EmbedEvent, EmbedTask, RerankEvent, RerankTask } from "./tasks/texts.ts";
import type { TranscribeEvent, TranscribeTask } from "./tasks/transcribe.ts";
import type { MatteEvent, MatteTask } from "./tasks/matte.ts";
import type { SpeakEvent, SpeakTask } from "./tasks/speak.ts";

export type * from "./tasks/ending.ts";
export type * from "./tasks/chat.ts";
export type * from "./tasks/texts.ts";
export type * from "./tasks/transcribe.ts";
export type * from "./tasks/matte.ts";
export type * from "./tasks/speak.ts";

/** What a request asks of the model. */
export type Task = ChatTask | EmbedTask | MatteTask | RerankTask | SpeakTask | TranscribeTask;

/** What comes back, by the task's type. The last event of a request is `done` or `error`. */
interface EventsByType {
  readonly chat: ChatEvent;
  readonly embed: EmbedEvent;
  readonly matte: MatteEvent;
  readonly rerank: RerankEvent;
  readonly speak: SpeakEvent;
  readonly transcribe: TranscribeEvent;
}

/** Worker to server, on the port of a task of type `T`. */
export type EventOf<T extends Task> = EventsByType[T["type"]];

/** An event of any task. */
export type TaskEvent = EventOf<Task>;
