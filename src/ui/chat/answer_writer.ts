/**
 * The answers that are being written in this tab: at most one per conversation. They are stored as they grow.
 *
 * @module
 */
import { saveTurn } from "./chat_database.ts";
import { type ChatRequestOptions, makeChatRequest } from "./conversation_formats.ts";
import { OwnWriting } from "./chat_state.ts";
import type { Message, TokenChoice, ToolCall, Turn } from "./conversation.ts";
import { post, readEvents } from "../server.ts";

/** How often a growing answer is stored, so that little is lost if the page closes. */
const SAVE_EVERY_MS = 1000;

interface LiveAnswer {
  turn: Turn;
  savedMs: number;
  readonly controller: AbortController;
}

/** Shows and stores answers. */
interface AnswerKeeper {
  /** Called when an answer begins or grows. */
  show(turn: Turn): void;
  /** Called when an answer has ended. `failure` is the error that ended it, if any. */
  end(turn: Turn, failure: string | undefined): void;
  /** Called when an answer could not be stored. */
  fail(error: Error): void;
}

export class AnswerWriter {
  readonly #answers = new Map<string, LiveAnswer>();
  readonly #writing = new OwnWriting();
  readonly #keeper: AnswerKeeper;

  constructor(keeper: AnswerKeeper) {
    this.#keeper = keeper;
    addEventListener("pagehide", () => {
      for (const live of this.#answers.values()) this.#save(live);
    });
  }

  /** Ids of the conversations in which an answer is being written. */
  get conversationIds(): ReadonlySet<string> {
    return new Set(this.#answers.keys());
  }

  /** The answer that is being written in a conversation, as far as it has come. */
  find(conversationId: string): Turn | undefined {
    return this.#answers.get(conversationId)?.turn;
  }

  /** Stops the answer in a conversation; its text so far is kept. */
  stop(conversationId: string): void {
    this.#answers.get(conversationId)?.controller.abort();
  }

  /**
   * Asks a model to write an answer, or to continue one.
   *
   * @param begun the answer so far, perhaps empty.
   */
  async write(begun: Turn, model: string, options: ChatRequestOptions): Promise<void> {
    const { conversationId } = begun;
    this.stop(conversationId);
    const live = { turn: begun, savedMs: Date.now(), controller: new AbortController() };
    const { signal } = live.controller;
    this.#answers.set(conversationId, live);
    this.#announce();
    this.#keeper.show(begun);
    let failure: string | undefined;
    try {
      const written = await streamAnswer(makeChatRequest(model, options), {
        begun,
        signal,
        onChange: (message) => {
          live.turn = { ...begun, ...message };
          this.#keeper.show(live.turn);
          if (Date.now() - live.savedMs >= SAVE_EVERY_MS) this.#save(live);
        },
      });
      live.turn = { ...begun, ...written };
      failure = signal.aborted ? undefined : written.error;
    } catch (error) {
      failure = (error as Error).message;
    }
    // Another answer may have replaced this one.
    if (this.#answers.get(conversationId) === live) this.#answers.delete(conversationId);
    this.#announce();
    this.#keeper.end(live.turn, failure);
  }

  #announce(): void {
    this.#writing.set([...this.#answers.values()].map(({ turn }) => turn.parentId!));
  }

  #save(live: LiveAnswer): void {
    live.savedMs = Date.now();
    saveTurn({ ...live.turn, isUnfinished: true }).catch((error) => this.#keeper.fail(error));
  }
}

interface Chunk {
  readonly choices: readonly {
    readonly delta: {
      readonly content?: string | null;
      readonly reasoning_content?: string;
      readonly tool_calls?: readonly {
        readonly index: number;
        readonly id?: string;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
    readonly finish_reason: string | null;
    readonly logprobs?: { readonly content: readonly TokenChoice[] | null } | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
  } | null;
}

/**
 * Calls `onChange` with the answer so far, at most once per frame, and returns the complete answer. An answer that is
 * stopped, or that fails, keeps the text that it had. The error is then part of the message.
 *
 * @param options.begun the beginning of the answer, if the request continues an answer; else empty.
 */
async function streamAnswer(
  body: unknown,
  { begun, signal, onChange }: {
    readonly begun: Message;
    readonly signal: AbortSignal;
    readonly onChange: (answer: Message) => void;
  },
): Promise<Message> {
  const answer = {
    id: begun.id,
    role: begun.role,
    text: begun.text,
    reasoning: begun.reasoning ?? "",
    toolCalls: [...begun.toolCalls ?? []] as ToolCall[],
    tokens: [...begun.tokens ?? []] as TokenChoice[],
  };
  const startedMs = performance.now();
  let firstTokenMs: number | undefined;
  let rest: Partial<Message> = {};
  const snapshot = (): Message => {
    const { reasoning, toolCalls, tokens, ...always } = answer;
    return {
      ...always,
      ...rest,
      ...(reasoning !== "" && { reasoning }),
      ...(toolCalls.length > 0 && { toolCalls: [...toolCalls] }),
      ...(tokens.length > 0 && { tokens: [...tokens] }),
    };
  };
  const painter = paintOncePerFrame(() => onChange(snapshot()));
  try {
    for await (const event of readEvents(await post("v1/chat/completions", body, signal))) {
      const { choices: [choice], usage } = event as Chunk;
      if (choice) {
        if (choice.delta.content || choice.delta.reasoning_content || choice.delta.tool_calls) {
          firstTokenMs ??= performance.now() - startedMs;
        }
        answer.text += choice.delta.content ?? "";
        answer.reasoning += choice.delta.reasoning_content ?? "";
        for (const call of choice.delta.tool_calls ?? []) addCall(answer.toolCalls, call);
        answer.tokens.push(...choice.logprobs?.content ?? []);
        if (choice.finish_reason === "length") {
          rest = { ...rest, note: "Ended at the token limit." };
        }
      }
      if (usage) {
        const totalMs = performance.now() - startedMs;
        const figures = {
          promptTokens: usage.prompt_tokens,
          completionTokens: usage.completion_tokens,
          cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
          firstTokenMs: firstTokenMs ?? totalMs,
          totalMs,
        };
        rest = { ...rest, figures };
      }
      painter.request();
    }
  } catch (error) {
    if (signal.aborted) rest = { ...rest, note: "Stopped." };
    else rest = { ...rest, error: (error as Error).message };
  } finally {
    painter.cancel();
  }
  return snapshot();
}

type CallDelta = NonNullable<Chunk["choices"][number]["delta"]["tool_calls"]>[number];

function addCall(calls: ToolCall[], { index, id, function: part }: CallDelta): void {
  const before = calls[index] ?? { id: "", name: "", arguments: "" };
  calls[index] = {
    id: id ?? before.id,
    name: before.name + (part?.name ?? ""),
    arguments: before.arguments + (part?.arguments ?? ""),
  };
}

/** Longest wait for a frame. Pages in the background get no frames, but their answers must be stored too. */
const LONGEST_FRAME_MS = 500;

/** Returns a function that requests a call of `paint` in the next frame, and one that cancels the request. */
function paintOncePerFrame(paint: () => void): { request(): void; cancel(): void } {
  let frame: number | undefined;
  let timer: number | undefined;
  const cancel = () => {
    if (frame !== undefined) cancelAnimationFrame(frame);
    clearTimeout(timer);
    frame = timer = undefined;
  };
  const paintNow = () => {
    cancel();
    paint();
  };
  return {
    request() {
      frame ??= requestAnimationFrame(paintNow);
      timer ??= setTimeout(paintNow, LONGEST_FRAME_MS);
    },
    cancel,
  };
}
