/**
 * Tasks for a model, and their events: plain data sent between threads. Only the memory of media is transferred rather
 * than copied.
 *
 * @module
 */
import type { ChatEvent, ChatTask, ErrorEvent } from "./tasks/chat.ts";
import type {
  DetokenizeTask,
  EmbedEvent,
  EmbedTask,
  RerankEvent,
  RerankTask,
  TokenizeTask,
  TokenTaskEvent,
} from "./tasks/texts.ts";
import type {
  DetectEvent,
  DetectTask,
  SpeakEvent,
  SpeakTask,
  TranscribeEvent,
  TranscribeTask,
} from "./tasks/speech.ts";

/** Removes the background of an image. */
export interface MatteTask {
  readonly type: "matte";
  readonly requestId: string;
  /** The file's bytes, of any supported format; transferred to the worker. */
  readonly image: Uint8Array<ArrayBuffer>;
  /** The image's path in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
  readonly options: MatteOptions;
}

/** Options of the result; by default the image's own pixels with an alpha channel. */
export interface MatteOptions {
  /** Background colour: red, green, blue and perhaps alpha, 0 to 255. */
  readonly background?:
    | readonly [red: number, green: number, blue: number, alpha?: number]
    | undefined;
  /** The alpha channel alone, as a grey image. */
  readonly maskOnly?: boolean | undefined;
  /** Whether to crop to the subject. */
  readonly crop?: boolean | undefined;
  /** Whether to follow the image's own edges, and to remove the background's colour from the subject's rim. */
  readonly refine?: boolean | undefined;
}

/** The single answer to a matte task. */
export type MatteEvent =
  | {
    readonly type: "done";
    /** A PNG file, transferred to the server. */
    readonly png: Uint8Array<ArrayBuffer>;
    readonly width: number;
    readonly height: number;
  }
  | ErrorEvent;

export type * from "./tasks/chat.ts";
export type * from "./tasks/chat.ts";
export type * from "./tasks/texts.ts";
export type * from "./tasks/speech.ts";

/** A task for the model. */
export type Task =
  | ChatTask
  | DetectTask
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
  readonly detect: DetectEvent;
  readonly detokenize: TokenTaskEvent;
  readonly embed: EmbedEvent;
  readonly matte: MatteEvent;
  readonly rerank: RerankEvent;
  readonly speak: SpeakEvent;
  readonly tokenize: TokenTaskEvent;
  readonly transcribe: TranscribeEvent;
}

/** The events that the worker sends to the server on the port of a task of type `T`. */
export type EventOf<T extends Task> = EventsByType[T["type"]];

/** An event of any task. */
export type TaskEvent = EventOf<Task>;

/** The memory of all media in a task or an event, each buffer once. */
export function listMedia(message: Task | TaskEvent): Set<ArrayBuffer> {
  return new Set(listFiles(message).map(({ buffer }) => buffer));
}

function listFiles(message: Task | TaskEvent): Uint8Array<ArrayBuffer>[] {
  switch (message.type) {
    case "transcribe":
      return [message.audio];
    case "matte":
      return [message.image];
    case "speak":
      return message.recording === undefined ? [] : [message.recording.audio];
    case "chat":
      return message.messages.flatMap(({ content }) =>
        typeof content === "string"
          ? []
          : content.flatMap((part) => part.type === "text" ? [] : [part.bytes])
      );
    case "audio":
      return [message.bytes];
    case "done":
      return "png" in message ? [message.png] : [];
    default:
      return [];
  }
}
