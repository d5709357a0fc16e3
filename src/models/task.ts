/**
 * Tasks (requests to a model), and the events that answer them. Tasks of chat and of speech are in `tasks/`.
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
 * The point at which a text that is too long is cut: the model's limit, or a number of tokens (special ones included).
 */
export type Truncation = "model" | number;

/** Turns texts into vectors. If one text fails, the whole task fails. */
export interface EmbedTask {
  readonly type: "embed";
  readonly requestId: string;
  readonly inputs: readonly TextInput[];
  /** The purpose of the texts. The model's prompt for this purpose is put before each text. */
  readonly inputType?: "query" | "document" | undefined;
  /** The name of one of the model's prompts, as an alternative to `inputType`. */
  readonly promptName?: string | undefined;
  /**
   * Whether vectors are normalised to length 1. If absent, the model's own setting decides, but shortened vectors are
   * always normalised.
   */
  readonly normalizes?: boolean | undefined;
  /** Number of leading elements of each vector to keep; the model's default if absent, usually all. */
  readonly dimensions?: number | undefined;
  /** If absent, a text that is too long is an error. */
  readonly truncation?: Truncation | undefined;
  /** Whether texts are cut at their beginning rather than at their end. */
  readonly keepsEnd?: boolean | undefined;
}

/** The single answer to an embed task. */
export type EmbedEvent =
  | {
    readonly type: "done";
    /** f32 `[inputs, dimensions]`, row-major. */
    readonly vectors: Float32Array;
    readonly dimensions: number;
    /** Number of tokens in all inputs, special ones included. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Scores the relevance of documents to one query, or of each document to a query of its own. */
export interface RerankTask {
  readonly type: "rerank";
  readonly requestId: string;
  /** One query for all documents, or one for each. */
  readonly query: string | readonly string[];
  readonly documents: readonly string[];
  /** If absent, a query and a document that are too long together are an error; otherwise the longer one is cut. */
  readonly truncation?: Truncation | undefined;
  /** Whether texts are cut at their beginning rather than at their end. */
  readonly keepsEnd?: boolean | undefined;
  /** Maximum number of tokens of a document; longer documents are truncated. */
  readonly maxDocumentTokens?: number | undefined;
  /** The meaning of relevance, for models that take an instruction; the model's default instruction if absent. */
  readonly instruction?: string | undefined;
}

/** The single answer to a rerank task. */
export type RerankEvent =
  | {
    readonly type: "done";
    /** Relevance of each document, 0 to 1, in the order of the task. */
    readonly scores: Float32Array;
    /** The scores before the sigmoid. They still differ when the scores round to 1. */
    readonly logits: Float32Array;
    /** Number of tokens in all pairs of query and document. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Turns a text or a conversation into tokens. */
export interface TokenizeTask {
  readonly type: "tokenize";
  readonly requestId: string;
  readonly text: string;
  /** A conversation instead of a text. */
  readonly chat?: Conversation | undefined;
  /** Whether to add the special tokens around a text. */
  readonly hasSpecial: boolean;
  /** Whether the answer includes the text and the bytes of each token. */
  readonly withPieces: boolean;
  /** Whether to return only the rendered conversation, without tokens. */
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

/** Options for the result. By default it is the image's own pixels with an alpha channel. */
export interface MatteOptions {
  /** Background colour: red, green, blue and optionally alpha, 0 to 255 each. */
  readonly background?:
    | readonly [red: number, green: number, blue: number, alpha?: number]
    | undefined;
  /** Whether to return only the alpha channel, as a grey image. */
  readonly maskOnly?: boolean | undefined;
  /** Whether to crop to the subject. */
  readonly crop?: boolean | undefined;
  /** Whether to fit the mask to the image's edges, and to remove the background's colour from the subject's rim. */
  readonly refine?: boolean | undefined;
}

/** The single answer to a matte task. */
export type MatteEvent =
  | {
    readonly type: "done";
    /** A PNG file, transferred to the server. */
    readonly png: Uint8Array<ArrayBuffer>;
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

/** Events by the type of the task. The last event of a request is `done` or `error`. */
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

/** Lists the memory of all media in a task or an event, each buffer once. */
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
