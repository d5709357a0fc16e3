/**
 * Chats with PDF files in their messages: each file is replaced by text or images before the model sees the message.
 *
 * @module
 */
import type { EngineSettings } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";
import { untilAborted } from "../../base/timing.ts";
import { openAnyFolder, readOptionalJson } from "../../hub/model_folder.ts";
import type { PageResolution } from "../../media/pdf/pdf_document.ts";
import { ActiveRequests, nameMedia } from "../threads/active_requests.ts";
import type { Model } from "../model.ts";
import type { ChatEvent, ChatMessage, ChatTask, DocumentPart, MessagePart, Task } from "../task.ts";
import { DocumentReader, type PdfPages, readPageResolution } from "./document_reader.ts";
import { PageAnswers } from "./page_answers.ts";

/** The separator between the texts of two pages. */
const TEXT_BREAK = "\n\n";

/** Maximum number of bytes of the images drawn from a document. It is also the limit for the media of a request. */
const MAX_DRAWN_BYTES = 100 * 2 ** 20;

type Emit = Parameters<Model["start"]>[1];

/** A task in progress. */
interface Work {
  readonly task: ChatTask;
  readonly emit: Emit;
  readonly signal: AbortSignal;
}

/**
 * Starts tasks of a model. A text model gets the text of a PDF, and a vision model gets an image of each page. An OCR
 * model reads one page after the other. Tasks without PDF files are passed to the model unchanged.
 */
export class DocumentTasks {
  readonly #model: Model;
  readonly #resolution: PageResolution;
  readonly #reader: DocumentReader;
  readonly #requests = new ActiveRequests();

  private constructor(
    model: Model,
    { resolution, maxPages }: {
      readonly resolution: PageResolution;
      readonly maxPages: number | undefined;
    },
  ) {
    this.#model = model;
    this.#resolution = resolution;
    this.#reader = new DocumentReader({ maxPages });
  }

  /** @param options.folder the model's folder. */
  static async open(
    model: Model,
    { folder, engine }: { readonly folder: string; readonly engine: EngineSettings },
  ): Promise<DocumentTasks> {
    const { kind } = model;
    const { maxImagePixels, maxPdfPages: maxPages } = engine;
    const config = await readOptionalJson(
      await openAnyFolder(folder),
      "preprocessor_config.json",
    );
    const resolution = readPageResolution(config, { kind, maxImagePixels });
    return new DocumentTasks(model, { resolution, maxPages });
  }

  /** Starts a task, like {@linkcode Model.start}. */
  start(task: Task, emit: Emit): () => void {
    if (task.type !== "chat" || !hasDocuments(task)) return this.#model.start(task, emit);
    return this.#requests.start({
      requestId: task.requestId,
      what: "reading a document",
      emit,
      answer: async (signal) => {
        const work = { task, emit, signal };
        if (this.#model.kind === "ocr") return await this.#readPages(work);
        const messages = await Promise.all(
          task.messages.map((message) => this.#expand(message, signal)),
        );
        signal.throwIfAborted();
        const cancel = this.#model.start({ ...task, messages }, emit);
        signal.addEventListener("abort", cancel, { once: true });
      },
    });
  }

  async dispose(): Promise<void> {
    this.#requests.cancel();
    await this.#requests.settle();
    this.#reader.close();
  }

  /** Replaces a message's documents with text or images. */
  async #expand(message: ChatMessage, signal: AbortSignal): Promise<ChatMessage> {
    if (typeof message.content === "string") return message;
    const parts: MessagePart[] = [];
    for (const part of message.content) {
      if (part.type !== "document") parts.push(part);
      else if (this.#model.kind === "text") parts.push(await this.#readText(part, signal));
      else parts.push(...await this.#draw(part, signal));
    }
    const texts = parts.flatMap((part) => part.type === "text" ? [part.text] : []);
    return { ...message, content: texts.length === parts.length ? texts.join("\n") : parts };
  }

  async #readText(
    part: DocumentPart,
    signal: AbortSignal,
  ): Promise<Extract<MessagePart, { type: "text" }>> {
    return await nameErrors(part, async () => {
      const pages = await this.#reader.open(part.bytes, signal);
      const texts: string[] = [];
      for (let index = 0; index < pages.length; index++) texts.push(await pages.readText(index));
      const text = texts.filter((each) => each !== "").join(TEXT_BREAK);
      if (text !== "") return { type: "text", text };
      throw new HearthError(
        "invalid_media",
        "The PDF has no text layer: its pages are images, which this model cannot read. " +
          "Use a vision or OCR model.",
      );
    });
  }

  async #draw(part: DocumentPart, signal: AbortSignal): Promise<MessagePart[]> {
    const { param } = part;
    return await nameErrors(part, async () => {
      const pages = await this.#reader.open(part.bytes, signal);
      const images: MessagePart[] = [];
      let numBytes = 0;
      for (let index = 0; index < pages.length; index++) {
        const bytes = await pages.draw(index, this.#resolution);
        images.push({ type: "image", bytes, param });
        numBytes += bytes.length;
        if (numBytes > MAX_DRAWN_BYTES) throw tooManyImages(index, pages.length);
      }
      return images;
    });
  }

  async #readPages(work: Work): Promise<void> {
    const { task, signal } = work;
    const index = task.messages.findLastIndex(({ role }) => role === "user");
    const content = task.messages[index]?.content ?? "";
    const parts = typeof content === "string" ? [] : content;
    const [document, other] = parts.filter(({ type }) => type !== "text");
    if (document?.type !== "document") {
      // The PDF file is in an earlier message, and OCR models read only the last one.
      const messages = task.messages.slice(index);
      const cancel = this.#model.start({ ...task, messages }, work.emit);
      signal.addEventListener("abort", cancel, { once: true });
      return;
    }
    if (other !== undefined && "param" in other) {
      throw new HearthError(
        "invalid_value",
        `${other.param}: this model reads one image or document at a time, but the message has another one.`,
        { param: other.param },
      );
    }
    const pages = await nameErrors(document, () => this.#reader.open(document.bytes, signal));
    const texts = parts.filter(({ type }) => type === "text");
    await this.#readEach(pages, { ...work, document, texts });
  }

  /** Reads the pages one after the other. Each page is drawn while the previous one is read. */
  async #readEach(
    pages: PdfPages,
    { task, emit, signal, document, texts }: Work & {
      readonly document: DocumentPart;
      readonly texts: readonly MessagePart[];
    },
  ): Promise<void> {
    requireOneAnswer(task, pages.length);
    const { param } = document;
    const { maxTokens = Infinity } = task.options;
    const answers = new PageAnswers(pages.length, (event) => void emit(event));
    const draw = (index: number) => {
      const drawn = nameErrors(document, () => pages.draw(index, this.#resolution));
      // An error is reported when the page is awaited.
      drawn.catch(() => {});
      return drawn;
    };
    let next = draw(0);
    for (let index = 0; index < pages.length; index++) {
      const image: MessagePart = { type: "image", bytes: await next, param };
      if (index + 1 < pages.length) next = draw(index + 1);
      signal.throwIfAborted();
      if (index > 0) answers.beginPage();
      const left = maxTokens - answers.numTokens;
      const goesOn = await this.#readPage({
        ...task,
        messages: [{ role: "user", content: [image, ...texts] }],
        options: { ...task.options, maxTokens: left === Infinity ? undefined : left },
      }, { answers, signal });
      if (!goesOn) return;
      if (answers.numTokens >= maxTokens) return answers.end();
    }
  }

  /** Reads a page. @returns whether to continue with the next page. */
  async #readPage(
    task: ChatTask,
    { answers, signal }: { readonly answers: PageAnswers; readonly signal: AbortSignal },
  ): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const cancel = this.#model.start(task, (event) => {
      const goesOn = answers.push(event as ChatEvent);
      if (goesOn !== undefined) resolve(goesOn);
      return Promise.resolve();
    });
    signal.addEventListener("abort", cancel, { once: true });
    return await untilAborted(promise, signal);
  }
}

function hasDocuments({ messages }: ChatTask): boolean {
  return messages.some(({ content }) =>
    typeof content !== "string" && content.some(({ type }) => type === "document")
  );
}

function tooManyImages(index: number, numPages: number): HearthError {
  return new HearthError(
    "invalid_media",
    `The images of the first ${index + 1} of the PDF's ${numPages} pages take more than ${
      MAX_DRAWN_BYTES / 2 ** 20
    } MiB, too much for one request: send fewer pages.`,
  );
}

function requireOneAnswer({ options: { n } }: ChatTask, numPages: number): void {
  if (n === 1 || numPages === 1) return;
  throw new HearthError(
    "invalid_value",
    `n: want 1 for a document of ${numPages} pages, saw ${n}.`,
    { param: "n" },
  );
}

/** Runs `read` so that its errors name the part of the request. */
async function nameErrors<T>({ param }: DocumentPart, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw nameMedia(error, param);
  }
}
