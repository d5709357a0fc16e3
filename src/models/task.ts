/**
 * Tasks: what a model is asked for, and the events that answer it; here those on texts and images, whose types are few.
 *
 * @module
 */
import type { ChatEvent, ChatTask, Conversation, ErrorEvent } from "./tasks/chat.ts";
import type {
  DetectEvent,
  DetectTask,
  SpeakEvent,
  SpeakTask,
  TranscribeEvent,
  TranscribeTask,
} from "./tasks/speech.ts";
import type { TokenText } from "./text/tokenizer_files.ts";

/** A text, or the ids of its tokens. */
export type TextInput = string | readonly number[];

/**
 * Where to cut a text that is too long: at the model's own limit, or after a number of tokens, special ones included.
 */
export type Truncation = "model" | number;

/** Turns texts into vectors. If one text fails, the whole task does. */
export interface EmbedTask {
  readonly type: "embed";
  readonly requestId: string;
  readonly inputs: readonly TextInput[];
  /** The purpose of the texts: the model's prompt for it is put before each. */
  readonly inputType?: "query" | "document" | undefined;
  /** Alternatively, the name of one of the model's prompts. */
  readonly promptName?: string | undefined;
  /**
   * Whether vectors are normalised to length 1; the model's own setting if absent. Shortened vectors are always
   * normalised.
   */
  readonly normalizes?: boolean | undefined;
  /** Leading elements to keep of each vector; all if absent. */
  readonly dimensions?: number | undefined;
  /** If absent, a text that is too long is an error. */
  readonly truncation?: Truncation | undefined;
}

/** The single answer to an embed task. */
export type EmbedEvent =
  | {
    readonly type: "done";
    /** f32 `[inputs, dimensions]`, row-major. */
    readonly vectors: Float32Array;
    readonly dimensions: number;
    /** Number of tokens of all inputs, special ones included. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Scores documents by their relevance to a query, or pairs of both. */
export interface RerankTask {
  readonly type: "rerank";
  readonly requestId: string;
  /** One query for all documents, or one for each. */
  readonly query: string | readonly string[];
  readonly documents: readonly string[];
  /** If absent, a query and document that are too long together are an error; otherwise the document is cut first. */
  readonly truncation?: Truncation | undefined;
  /** Most tokens of a document; longer documents are truncated. */
  readonly maxDocumentTokens?: number | undefined;
  /** What relevance means, for models that take an instruction; their own instruction if absent. */
  readonly instruction?: string | undefined;
}

/** The single answer to a rerank task. */
export type RerankEvent =
  | {
    readonly type: "done";
    /** 0 to 1 for each document, in the order of the task. */
    readonly scores: Float32Array;
    /** The scores before the sigmoid; they still differ where scores round to 1. */
    readonly logits: Float32Array;
    /** Number of tokens of all pairs of query and document. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Turns a text, or a conversation, into tokens. */
export interface TokenizeTask {
  readonly type: "tokenize";
  readonly requestId: string;
  readonly text: string;
  /** A conversation instead of a text. */
  readonly chat?: Conversation | undefined;
  /** Whether to add the special tokens around a text. */
  readonly hasSpecial: boolean;
  /** Whether the text and the bytes of each token are wanted. */
  readonly withPieces: boolean;
  /** Whether only the rendered conversation is wanted. */
  readonly onlyRenders: boolean;
}

/** Turns tokens into text. */
export interface DetokenizeTask {
  readonly type: "detokenize";
  readonly requestId: string;
  readonly tokens: readonly number[];
}

/** The single answer to a tokenize or detokenize task. */
export type TokenTaskEvent =
  | {
    readonly type: "done";
    readonly tokens: readonly number[];
    readonly pieces?: readonly TokenText[] | undefined;
    readonly text: string;
  }
  | ErrorEvent;

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
