/**
 * What a request asks of a model, and the events that come back: plain data that crosses between threads.
 *
 * @module
 */
import type { WireError } from "../errors.ts";
import type { SoundFormat } from "../media/sound_format.ts";

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

/** A request could not be answered; nothing follows. */
export interface ErrorEvent {
  readonly type: "error";
  readonly error: WireError;
}

/** One message of a conversation, its content already reduced to what the loaded kind takes. */
export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  /** Parts only where one of them is not text. */
  readonly content: string | readonly MessagePart[];
}

/** A part of a message, in the order in which the model is to see them. */
export type MessagePart = TextPart | ImagePart;

/** Words. */
export interface TextPart {
  readonly type: "text";
  readonly text: string;
}

/** A picture. */
export interface ImagePart {
  readonly type: "image";
  /** The file's bytes, of any format that is known; their memory goes to the worker. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The part's place in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
}

/** A chat completion. Values are validated; what is absent falls to the model's generation_config. */
export interface ChatTask {
  readonly type: "chat";
  readonly requestId: string;
  readonly messages: readonly ChatMessage[];
  readonly options: GenerationOptions;
}

/** How to generate. */
export interface GenerationOptions {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
  /** `[tokenId, bias]`, each token once. */
  readonly logitBias?: readonly (readonly [number, number])[] | undefined;
  /** Unsigned 32-bit; random if absent. Choice `i` of `n` uses its own stream derived from it. */
  readonly seed?: number | undefined;
  /** To the end of the context if absent. */
  readonly maxTokens?: number | undefined;
  readonly stop: readonly string[];
  /** Choices to generate. */
  readonly n: number;
  /** Report log-probabilities of the chosen and this many of the most likely tokens; absent reports none. */
  readonly topLogprobs?: number | undefined;
}

/** A token with its log-probability. */
export interface TokenLogprob {
  readonly token: string;
  readonly bytes: readonly number[];
  readonly logprob: number;
}

/** The log-probability of a chosen token and its rivals. */
export interface ChosenLogprob extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

/** Worker to server, on a chat request's port, in this order: start, deltas and finishes, done; or error at any point, which ends it. */
export type ChatEvent =
  | { readonly type: "start"; readonly promptTokens: number }
  | {
    readonly type: "delta";
    /** Which choice. */
    readonly index: number;
    /** May be empty when it only carries log-probabilities. */
    readonly text: string;
    readonly logprobs?: readonly ChosenLogprob[] | undefined;
  }
  | { readonly type: "finish"; readonly index: number; readonly reason: "stop" | "length" }
  | { readonly type: "done"; readonly usage: TokenUsage }
  | ErrorEvent;

/** Tokens a request took. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens whose keys and values were already there. */
  readonly cachedTokens: number;
}

/** A text, or the ids of its tokens. */
export type TextInput = string | readonly number[];

/** Where to cut texts that are too long: at the model's own limit, or at a number of tokens, special ones included. */
export type Truncation = "model" | number;

/** Turns texts into vectors, all or none. */
export interface EmbedTask {
  readonly type: "embed";
  readonly requestId: string;
  readonly inputs: readonly TextInput[];
  /** What the texts are for; the model puts its prompt for that before each. */
  readonly inputType?: "query" | "document" | undefined;
  /** Leading elements to keep of each vector; all if absent. */
  readonly dimensions?: number | undefined;
  /** A text that is too long is an error if absent. */
  readonly truncation?: Truncation | undefined;
}

/** The answer to an embed task, in one piece. */
export type EmbedEvent =
  | {
    readonly type: "done";
    /** f32 `[inputs, dimensions]`, row-major, each row of length 1 where the model normalises. */
    readonly vectors: Float32Array;
    readonly dimensions: number;
    /** Tokens of all inputs, special ones included. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Scores documents by their relevance to a query. */
export interface RerankTask {
  readonly type: "rerank";
  readonly requestId: string;
  readonly query: string;
  readonly documents: readonly string[];
  /** A query and document that are too long together are an error if absent; else the document is cut first. */
  readonly truncation?: Truncation | undefined;
  /** Most tokens of a document; what is beyond is cut. */
  readonly maxDocumentTokens?: number | undefined;
}

/** The answer to a rerank task, in one piece. */
export type RerankEvent =
  | {
    readonly type: "done";
    /** 0 to 1 for each document, in the order of the task. */
    readonly scores: Float32Array;
    /** Tokens of all pairs of query and document. */
    readonly promptTokens: number;
  }
  | ErrorEvent;

/** Writes down what is said in an audio file. */
export interface TranscribeTask {
  readonly type: "transcribe";
  readonly requestId: string;
  /** The file's bytes, of any format that is known; its memory goes to the worker. */
  readonly audio: Uint8Array<ArrayBuffer>;
  /** One of the API's codes; told from the sound if absent. */
  readonly language?: string | undefined;
  /** 0 always takes the most likely token at first; parts that go wrong are tried again at higher ones. */
  readonly temperature: number;
}

/** Worker to server, on a transcribe task's port, in this order: start, segments, done; or error at any point, which ends it. */
export type TranscribeEvent =
  | {
    readonly type: "start";
    /** The language's name: `english`. */
    readonly language: string;
    readonly durationSeconds: number;
  }
  | { readonly type: "segment"; readonly segment: TranscriptSegment }
  | { readonly type: "done"; readonly usage: TokenUsage }
  | ErrorEvent;

/** A piece of a transcript. */
export interface TranscriptSegment {
  readonly id: number;
  /** First frame of the window it was heard in, a hundredth of a second each. */
  readonly seekFrame: number;
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** As the model writes it: with a space in front where its language has spaces. */
  readonly text: string;
  /** Its tokens, with the timestamps around them. */
  readonly tokens: readonly number[];
  /** At which the window was decoded in the end. */
  readonly temperature: number;
  readonly meanLogprob: number;
  readonly compressionRatio: number;
  readonly noSpeechProbability: number;
}

/** Cuts what a picture is of out of its background. */
export interface MatteTask {
  readonly type: "matte";
  readonly requestId: string;
  /** The file's bytes, of any format that is known; their memory goes to the worker. */
  readonly image: Uint8Array<ArrayBuffer>;
  /** The picture's place in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
  readonly options: MatteOptions;
}

/** What to make of a picture; without any, its own pixels with an alpha channel. */
export interface MatteOptions {
  /** Red, green and blue, 0 to 255, of what to lay behind the subject. */
  readonly background?: readonly [red: number, green: number, blue: number] | undefined;
  /** The alpha channel alone, as a grey picture. */
  readonly maskOnly?: boolean | undefined;
  /** Cut to where the subject is. */
  readonly crop?: boolean | undefined;
  /** Follow the picture's own edges, and take the background's colour out of the subject's rim. */
  readonly refine?: boolean | undefined;
}

/** The answer to a matte task, in one piece. */
export type MatteEvent =
  | {
    readonly type: "done";
    /** A PNG file; its memory goes to the server. */
    readonly png: Uint8Array<ArrayBuffer>;
    readonly width: number;
    readonly height: number;
  }
  | ErrorEvent;

/** Somebody whom a model can speak as. */
export interface VoiceInfo {
  readonly id: string;
  /** What the voice speaks, as in BCP 47: `en-US`. */
  readonly language: string;
}

/** Reads a text aloud. */
export interface SpeakTask {
  readonly type: "speak";
  readonly requestId: string;
  readonly text: string;
  /** The text's place in the request, for messages: `input`. */
  readonly param: string;
  /** One of the model's voices; its first if absent. */
  readonly voice?: string | undefined;
  /** 1 is the model's own pace; 0.25 to 4. */
  readonly speed: number;
  readonly format: SoundFormat;
  /** Unsigned 32-bit: equal tasks with equal seeds sound the same. */
  readonly seed: number;
}

/** Worker to server, on a speak task's port, in this order: audio, once per piece of text, and done; or error at any point, which ends it. */
export type SpeakEvent =
  | {
    readonly type: "audio";
    /** The next bytes of a file; their memory goes to the server. */
    readonly bytes: Uint8Array<ArrayBuffer>;
    /** The file is whole with these. */
    readonly isLast: boolean;
  }
  | {
    readonly type: "done";
    /** Tokens of all the text. */
    readonly textTokens: number;
    readonly audioSeconds: number;
  }
  | ErrorEvent;
