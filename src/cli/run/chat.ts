/**
 * `run` at a terminal without an input: a conversation.
 *
 * @module
 */
import { basename, extname } from "node:path";
import type { ModelKind } from "../../base/config.ts";
import { HearthError, StartupError } from "../../base/errors.ts";
import type { ChatMessage, MessagePart } from "../../models/task.ts";
import {
  CHAT_HELP,
  type ChatCommand,
  ChatTerminal,
  readChatCommand,
  readTypedPath,
} from "./terminal.ts";
import { type FilePart, toMediaPart } from "./input.ts";
import { requireSuccess } from "../../server/session/task_stream.ts";
import type { RunSession } from "./timed_session.ts";

/** Kinds of models that support a conversation. */
const CHAT_KINDS: readonly ModelKind[] = ["text", "vision", "ocr", "asr"];

/** Checks that a model can be used without an input. @throws {StartupError} when models of this kind need one. */
export function requireChatKind(kind: ModelKind): void {
  if (CHAT_KINDS.includes(kind)) return;
  throw new StartupError(
    `There is no input: give a text or a file with -i. Models of kind ${kind} cannot chat.`,
  );
}

interface ChatOptions {
  readonly session: RunSession;
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
}

/**
 * Runs the conversation until the user leaves.
 *
 * @param onOpen receives a function that restores the terminal, to be called when a signal ends the process.
 */
export async function chat(
  options: ChatOptions,
  onOpen: (close: () => void) => void,
): Promise<void> {
  using terminal = new ChatTerminal();
  onOpen(() => terminal.close());
  const conversation = new Conversation(terminal, options);
  conversation.greet();
  while (true) {
    const text = await terminal.readMessage();
    if (text === undefined) return;
    if (text === "") continue;
    const command = readChatCommand(text);
    if (typeof command === "object" && command.name === "bye") return;
    try {
      if (typeof command === "string") terminal.writeAside(`${command}\n`);
      else if (command === undefined) await conversation.say(text);
      else await conversation.execute(command);
    } catch (error) {
      if (!(error instanceof HearthError || error instanceof StartupError)) throw error;
      terminal.write(`\n${error.message}\n`);
    }
  }
}

class Conversation {
  readonly #terminal: ChatTerminal;
  readonly #options: ChatOptions;
  readonly #kind: ModelKind;
  #system: string | undefined;
  #messages: ChatMessage[] = [];
  /** Images, sounds and documents for the next message. For an OCR model, the last image or document is kept. */
  #attachments: FilePart[] = [];

  constructor(terminal: ChatTerminal, options: ChatOptions) {
    this.#terminal = terminal;
    this.#options = options;
    this.#kind = options.session.requireReady().kind;
  }

  get #takesAudio(): boolean {
    return this.#options.session.requireReady().takesAudio === true;
  }

  greet(): void {
    const how = {
      ocr: "Name an image with /image, then write an instruction if you like.",
      asr: "Name a recording with /audio.",
      vision: this.#takesAudio
        ? "Write a message; /image adds an image to it, /audio a recording."
        : "Write a message; /image adds an image to it.",
    }[this.#kind as string] ?? "Write a message.";
    this.#note(`${this.#options.session.requireReady().id}. ${how} /help shows more, ^D leaves.`);
  }

  /** Sends a message and writes the answer. */
  async say(text: string): Promise<void> {
    if (this.#kind === "asr") {
      return this.#note("This model transcribes recordings: name one with /audio.");
    }
    const images = this.#attachments;
    if (this.#kind === "ocr") {
      if (images.length === 0) return this.#note("This model reads images: name one with /image.");
      await this.#answer([{ role: "user", content: [...images, { type: "text", text }] }]);
      return;
    }
    const content: string | MessagePart[] = images.length === 0
      ? text
      : [...images, { type: "text", text }];
    // A file that cannot be read is not sent again.
    this.#attachments = [];
    const question: ChatMessage = { role: "user", content };
    const answer = await this.#answer([...this.#messages, question]);
    this.#messages.push(question, { role: "assistant", content: answer });
  }

  async execute({ name, rest }: ChatCommand): Promise<void> {
    switch (name) {
      case "help":
        return this.#terminal.write(CHAT_HELP);
      case "system":
        return this.#setSystem(rest);
      case "image":
        return await this.#addImage(rest);
      case "audio":
        return await this.#transcribe(rest);
      case "save":
        return await this.#save(rest);
      case "clear":
        this.#messages = [];
        this.#attachments = [];
        return this.#note("The conversation was cleared.");
    }
  }

  #setSystem(text: string): void {
    if (this.#kind === "asr" || this.#kind === "ocr") {
      return this.#note("This model takes no system prompt.");
    }
    if (text === "") return this.#note(this.#system ?? "There is no system prompt.");
    this.#system = text === "none" ? undefined : text;
    this.#note("The system prompt applies from the next message on.");
  }

  async #addImage(path: string): Promise<void> {
    if (this.#kind === "asr") {
      return this.#note("This model transcribes recordings: name one with /audio.");
    }
    const file = await readFile(path, "/image photo.jpg");
    const { name } = file;
    const image = toMediaPart(file, {});
    if (this.#kind === "text" && image.type === "image") {
      return this.#note(
        "This model takes no images, only the text of PDF files. For images use a vision model, such as qwen3-vl-2b.",
      );
    }
    if (this.#kind !== "ocr") {
      this.#attachments.push(image);
      return this.#note(`${name} will be sent with the next message.`);
    }
    await this.#answer([{ role: "user", content: [image] }]);
    this.#attachments = [image];
  }

  async #transcribe(path: string): Promise<void> {
    if (this.#takesAudio) {
      const { bytes, name: param } = await readFile(path, "/audio speech.wav");
      this.#attachments.push({ type: "audio", bytes, param });
      return this.#note(`${param} will be sent with the next message.`);
    }
    if (this.#kind !== "asr") {
      return this.#note(
        "This model takes no audio: use a speech recognition model, such as whisper-base.",
      );
    }
    const { bytes: audio, name: param } = await readFile(path, "/audio speech.wav");
    const { session, temperature = 0, maxTokens } = this.#options;
    const isStopped = await this.#terminal.whileAnswering(async (signal) => {
      const task = { type: "transcribe", requestId: "run", audio, param, temperature, maxTokens };
      let isFirst = true;
      const events = session.stream({ ...task, type: "transcribe" }, { signal });
      for await (const event of requireSuccess(events)) {
        if (event.type === "done") this.#terminal.write("\n\n");
        if (event.type !== "segment") continue;
        const { text } = event.segment;
        this.#terminal.write(isFirst ? text.trimStart() : text);
        isFirst = false;
      }
    });
    if (isStopped) this.#terminal.write("\n\n");
  }

  /** Writes the answer as it is generated. @returns its text, even if it was stopped early. */
  async #answer(messages: readonly ChatMessage[]): Promise<string> {
    const { session, temperature, maxTokens } = this.#options;
    const system = this.#system === undefined
      ? []
      : [{ role: "system", content: this.#system } as const];
    let answer = "";
    let isThinking = false;
    const isStopped = await this.#terminal.whileAnswering(async (signal) => {
      const events = session.stream({
        type: "chat",
        requestId: "run",
        messages: [...system, ...messages.map(copyMedia)],
        options: { temperature, maxTokens, stop: [], n: 1 },
      }, { signal });
      for await (const event of requireSuccess(events)) {
        if (event.type === "done") this.#terminal.write("\n\n");
        if (event.type !== "delta") continue;
        if (event.reasoning) this.#terminal.writeAside(event.reasoning);
        isThinking ||= Boolean(event.reasoning);
        if (event.text === "") continue;
        this.#terminal.write(isThinking && answer === "" ? `\n\n${event.text}` : event.text);
        answer += event.text;
      }
    });
    if (isStopped) this.#terminal.write("\n\n");
    return answer;
  }

  async #save(path: string): Promise<void> {
    if (path === "") return this.#note("Name a file: /save talk.md.");
    const file = readTypedPath(path);
    const text = extname(file).toLowerCase() === ".json" ? this.#toJson() : this.#toMarkdown();
    try {
      await Deno.writeTextFile(file, text, { createNew: true });
    } catch (error) {
      const reason = error instanceof Deno.errors.AlreadyExists
        ? "it already exists; name a new file"
        : (error as Error).message;
      throw new StartupError(`${file} cannot be written: ${reason}.`);
    }
    this.#note(`Saved to ${file}.`);
  }

  #allMessages(): { role: string; content: string }[] {
    const system = this.#system === undefined ? [] : [{ role: "system", content: this.#system }];
    return [
      ...system,
      ...this.#messages.map(({ role, content }) => ({ role, content: show(content) })),
    ];
  }

  #toJson(): string {
    return `${JSON.stringify({ messages: this.#allMessages() }, undefined, 2)}\n`;
  }

  #toMarkdown(): string {
    return this.#allMessages().map(({ role, content }) => `## ${role}\n\n${content}\n`).join("\n");
  }

  #note(text: string): void {
    this.#terminal.writeAside(`${text}\n`);
  }
}

/** Returns a message's text, with the type and file name of each image, sound and document. */
function show(content: ChatMessage["content"]): string {
  if (typeof content === "string") return content;
  return content.map((part) => part.type === "text" ? part.text : `[${part.type}: ${part.param}]`)
    .join("\n");
}

/** Copies a message, because its media are transferred to the worker. */
function copyMedia(message: ChatMessage): ChatMessage {
  const { content } = message;
  if (typeof content === "string") return message;
  return {
    ...message,
    content: content.map((part) =>
      part.type === "text" ? part : { ...part, bytes: part.bytes.slice() }
    ),
  };
}

/** Reads the file that the user named. @throws {StartupError} when there is no such file, or none was named. */
async function readFile(
  typed: string,
  example: string,
): Promise<{ readonly bytes: Uint8Array<ArrayBuffer>; readonly name: string }> {
  if (typed === "") throw new StartupError(`Name a file: ${example}.`);
  const path = readTypedPath(typed);
  try {
    return { bytes: await Deno.readFile(path), name: basename(path) };
  } catch (error) {
    const reason = error instanceof Deno.errors.NotFound
      ? `There is no file ${path}.`
      : `${path} cannot be read: ${(error as Error).message}.`;
    throw new StartupError(reason);
  }
}
