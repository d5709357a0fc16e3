/** PDF files in chats through all families of the API, with the official clients. */
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { BadRequestError } from "openai";
import { PdfDocument } from "../../src/media/pdf/pdf_document.ts";
import { encodePng } from "../../src/media/image/png.ts";
import { readPageResolution } from "../../src/models/documents/document_reader.ts";
import { documentFile, writeBomb, writePage } from "../fixtures/documents/documents.ts";
import { TestServer, type TestServerOptions } from "../fixtures/servers/server.ts";
import { makeTinyOcr } from "../fixtures/models/tiny_ocr.ts";

const MODEL = "under-test";
const PAGES = ["Invoice 1: 42 EUR", "Invoice 2: 42 EUR"].map((first) =>
  `${first}\nThe quick brown fox jumps over the lazy dog.`
);

interface Opened {
  readonly server: TestServer;
  readonly openai: OpenAI;
  readonly anthropic: Anthropic;
}

/** Servers by their options. They stop after the last test. */
const servers = new Map<string, Promise<TestServer>>();
Deno.test.afterAll(async () => {
  for (const server of servers.values()) await (await server)[Symbol.asyncDispose]();
});

async function withServer(options: TestServerOptions, use: (opened: Opened) => Promise<void>) {
  const start = () => TestServer.start(options);
  const server = await servers.getOrInsertComputed(JSON.stringify(options), start);
  const key = { apiKey: "any", maxRetries: 0 };
  await use({
    server,
    openai: new OpenAI({ baseURL: `${server.base}/v1`, ...key }),
    anthropic: new Anthropic({ baseURL: server.base, ...key }),
  });
}

function filePart(
  file: Uint8Array<ArrayBuffer>,
  { head = "data:application/pdf;base64,", filename = "a.pdf" } = {},
): OpenAI.ChatCompletionContentPart {
  return { type: "file", file: { filename, file_data: `${head}${file.toBase64()}` } };
}

function ask(
  model: string,
  content: OpenAI.ChatCompletionContentPart[],
): OpenAI.ChatCompletionCreateParamsNonStreaming {
  return { model, messages: [{ role: "user", content }], temperature: 0 };
}

/** Draws the pages as PNG files, in the resolution in which the server draws them for a model of this kind. */
async function drawPages(
  name: string,
  { kind, preprocessor }: {
    readonly kind: "vision" | "ocr";
    readonly preprocessor: Record<string, unknown>;
  },
): Promise<Uint8Array<ArrayBuffer>[]> {
  const maxMs = 60_000;
  const resolution = readPageResolution(preprocessor, { kind });
  using document = await PdfDocument.open(documentFile(name), { maxMs });
  const indices = Array.from({ length: document.numPages }, (_, index) => index);
  return await Promise.all(
    indices.map((index) => encodePng(document.renderPage(index, { resolution, maxMs }))),
  );
}

function imagePart(file: Uint8Array<ArrayBuffer>): OpenAI.ChatCompletionContentPart {
  return { type: "image_url", image_url: { url: `data:image/png;base64,${file.toBase64()}` } };
}

Deno.test("documents: an OCR model reads page by page, in every family of the API", () =>
  withServer({ model: "hearth-demo-ocr" }, async ({ openai, anthropic, server }) => {
    const model = "hearth-demo-ocr";
    const file = documentFile("text");
    const wanted = PAGES.join("\n\f");
    for (const part of [filePart(file), filePart(file, { head: "" })]) {
      const { choices } = await openai.chat.completions.create(ask(model, [part]));
      assert.equal(choices[0]!.message.content, wanted);
      assert.equal(choices[0]!.finish_reason, "stop");
    }
    // A PDF is also read if it is sent as an image: the content decides.
    const url = `data:application/pdf;base64,${file.toBase64()}`;
    const byImage = await openai.chat.completions.create(
      ask(model, [{ type: "image_url", image_url: { url } }]),
    );
    assert.equal(byImage.choices[0]!.message.content, wanted);
    const stream = await openai.chat.completions.create({
      ...ask(model, [filePart(file)]),
      stream: true,
    });
    const pieces: string[] = [];
    for await (const { choices } of stream) pieces.push(choices[0]?.delta.content ?? "");
    assert.equal(pieces.join(""), wanted);
    assert.ok(pieces.includes("\n\f"));
    for (
      const source of [{ file_data: url, filename: "a.pdf" }, { file_data: file.toBase64() }]
    ) {
      const response = await openai.responses.create({
        model,
        input: [{ role: "user", content: [{ type: "input_file", ...source }] }],
      });
      assert.equal(response.output_text, wanted);
    }
    const message = await anthropic.messages.create({
      model,
      max_tokens: 1000,
      messages: [{
        role: "user",
        content: [{
          type: "document",
          source: { type: "base64", media_type: "application/pdf", data: file.toBase64() },
        }],
      }],
    });
    assert.deepEqual(message.content.map((block) => block.type === "text" && block.text), [wanted]);
    await using files = Deno.serve(
      { port: 0, hostname: "127.0.0.1", onListen: () => {} },
      () => new Response(file),
    );
    const address = `http://127.0.0.1:${files.addr.port}/a.pdf`;
    const byAddress = await openai.responses.create({
      model,
      input: [{ role: "user", content: [{ type: "input_file", file_url: address }] }],
    });
    assert.equal(byAddress.output_text, wanted);
    const typeLast = JSON.stringify({
      model,
      max_tokens: 1000,
      messages: [{
        role: "user",
        content: [{
          source: { data: file.toBase64(), media_type: "application/pdf", type: "base64" },
          type: "document",
        }],
      }],
    });
    const raw = await fetch(`${server.base}/messages`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: typeLast,
    });
    assert.equal((await raw.json()).content[0].text, wanted);
  }));

Deno.test("documents: files of many megabytes do not count as text, in every family of the API", () =>
  withServer({ model: "hearth-demo-ocr" }, async ({ openai, anthropic, server }) => {
    const model = "hearth-demo-ocr";
    // An unused object, larger than the limit for a request's text.
    const file = writePage("/MediaBox [0 0 200 100]", `% ${"x".repeat(7 * 2 ** 20)}`);
    const data = file.toBase64();
    for (const head of ["", "data:application/pdf;base64,", "base64://"]) {
      const { choices } = await openai.chat.completions.create(ask(model, [
        filePart(file, { head }),
      ]));
      assert.equal(choices[0]!.message.content, "");
      const { status } = await openai.responses.create({
        model,
        input: [{ role: "user", content: [{ type: "input_file", file_data: `${head}${data}` }] }],
      });
      assert.equal(status, "completed");
    }
    const source = { type: "base64", media_type: "application/pdf", data } as const;
    const content = [{ type: "document", source } as const];
    const request = { model, max_tokens: 9, messages: [{ role: "user" as const, content }] };
    assert.equal((await anthropic.messages.create(request)).stop_reason, "end_turn");
    const { type, ...rest } = source;
    const raw = await fetch(`${server.base}/messages`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        ...request,
        messages: [{ role: "user", content: [{ type: "document", source: { ...rest, type } }] }],
      }),
    });
    assert.equal(raw.status, 200);
  }));

Deno.test("documents: max_tokens and stop strings end the reading of pages", () =>
  withServer({ model: "hearth-demo-ocr" }, async ({ openai }) => {
    const model = "hearth-demo-ocr";
    const request = ask(model, [filePart(documentFile("text"))]);
    const numFirst = PAGES[0]!.length;
    for (const maxTokens of [3, numFirst - 1, numFirst, numFirst + 7]) {
      const { choices, usage } = await openai.chat.completions.create({
        ...request,
        max_tokens: maxTokens,
      });
      const [{ finish_reason: reason, message }] = choices as [OpenAI.ChatCompletion.Choice];
      const text = message.content!.replace("\n\f", "");
      // The end of a page counts as a token.
      const numEnds = maxTokens > numFirst ? 1 : 0;
      assert.equal(text, PAGES.join("").slice(0, maxTokens - numEnds));
      assert.equal(reason, "length");
      assert.equal(usage!.completion_tokens, maxTokens);
    }
    const stopped = await openai.chat.completions.create({ ...request, stop: "Invoice 2" });
    assert.equal(stopped.choices[0]!.message.content, `${PAGES[0]}\n\f`);
    assert.equal(stopped.choices[0]!.finish_reason, "stop");
    await assert.rejects(
      openai.chat.completions.create({ ...request, n: 2 }),
      (error) => error instanceof BadRequestError && /^400 n: /.test(error.message),
    );
  }));

Deno.test("documents: TrOCR answers for a PDF's pages as it does for images of these pages", async () => {
  await using tiny = await makeTinyOcr("trocr");
  await withServer({ folder: tiny.folder, model: MODEL }, async ({ openai }) => {
    const config = JSON.parse(await Deno.readTextFile(`${tiny.folder}/preprocessor_config.json`));
    const pages = await drawPages("text", { kind: "ocr", preprocessor: config });
    const alone = await Promise.all(
      pages.map((page) => openai.chat.completions.create(ask(MODEL, [imagePart(page)]))),
    );
    const whole = await openai.chat.completions.create(
      ask(MODEL, [filePart(documentFile("text"))]),
    );
    const texts = alone.map(({ choices }) => choices[0]!.message.content!);
    assert.ok(texts[0]!.length > 10);
    assert.equal(whole.choices[0]!.message.content, texts.join("\n\f"));
    // The model's random weights never end an answer: both pages fill its context.
    assert.equal(whole.choices[0]!.finish_reason, "length");
    for (const count of ["prompt_tokens", "completion_tokens"] as const) {
      assert.equal(whole.usage![count], alone.reduce((sum, { usage }) => sum + usage![count], 0));
    }
  });
});

Deno.test("documents: a vision model sees each page as an image", () =>
  withServer({ model: "hearth-demo-vision" }, async ({ openai, anthropic }) => {
    const model = "hearth-demo-vision";
    const size = { width: 128, height: 128 };
    const pages = await drawPages("text", { kind: "vision", preprocessor: { size } });
    const question = { type: "text", text: "What is this?" } as const;
    const wanted = await openai.chat.completions.create({
      ...ask(model, [...pages.map(imagePart), question]),
      max_tokens: 12,
    });
    const document = filePart(documentFile("text"), { filename: "" });
    const given = await openai.chat.completions.create({
      ...ask(model, [document, question]),
      max_tokens: 12,
    });
    assert.equal(given.choices[0]!.message.content, wanted.choices[0]!.message.content);
    assert.equal(given.usage!.prompt_tokens, wanted.usage!.prompt_tokens);
    const data = documentFile("text").toBase64();
    const source = { type: "base64", media_type: "application/pdf", data } as const;
    const { input_tokens } = await anthropic.messages.countTokens({
      model,
      messages: [{ role: "user", content: [{ type: "document", source }, question] }],
    });
    assert.equal(input_tokens, wanted.usage!.prompt_tokens);
  }));

Deno.test("documents: a text model reads a PDF's own text", () =>
  withServer({ model: "hearth-demo-chat" }, async ({ openai, server }) => {
    const model = "hearth-demo-chat";
    const question = { type: "text", text: "What is this?" } as const;
    const limit = { max_tokens: 8 };
    const wanted = await openai.chat.completions.create({
      ...ask(model, [{ type: "text", text: `a.pdf\n${PAGES.join("\n\n")}\nWhat is this?` }]),
      ...limit,
    });
    const given = await openai.chat.completions.create({
      ...ask(model, [filePart(documentFile("text")), question]),
      ...limit,
    });
    assert.deepEqual(given.choices, wanted.choices);
    assert.equal(given.usage!.prompt_tokens, wanted.usage!.prompt_tokens);
    const asText = new TextEncoder().encode(PAGES.join("\n\n"));
    const text = await openai.chat.completions.create({
      ...ask(model, [filePart(asText, { head: "data:text/plain;base64," }), question]),
      ...limit,
    });
    assert.deepEqual(text.choices, wanted.choices);
    // The prompt of a response that continues a stored one contains the stored document.
    const first = await openai.responses.create({
      model,
      max_output_tokens: 8,
      input: [{
        role: "user",
        content: [{ type: "input_file", file_data: documentFile("text").toBase64() }],
      }],
    });
    const second = await openai.responses.create({
      ...{ model, max_output_tokens: 8, input: "And?", previous_response_id: first.id },
    });
    assert.ok(second.usage!.input_tokens > first.usage!.input_tokens + 2);
    const rendered = await fetch(`${server.base}/apply-template`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        messages: [{ role: "user", content: [filePart(documentFile("text"))] }],
      }),
    });
    assert.equal(rendered.status, 400);
  }));

Deno.test("documents: unreadable files are refused with the part's name and the reason", () =>
  withServer(
    { model: "hearth-demo-chat", engine: { prefixCache: true, maxPdfPages: 1 } },
    async ({ openai, anthropic }) => {
      const model = "hearth-demo-chat";
      const refusals: readonly (readonly [Uint8Array<ArrayBuffer>, RegExp])[] = [
        [documentFile("user password"), /needs a password/],
        [documentFile("no pages"), /has no pages/],
        [documentFile("cut off"), /damaged or cut off/],
        [documentFile("text"), /has 2 pages; at most 1 are allowed \(--max-pdf-pages\)/],
        [documentFile("scan as fax"), /has no text layer/],
        [new Uint8Array([0, 1, 2]), /takes PDF files and UTF-8 text, and the file is neither/],
      ];
      for (const [file, reason] of refusals) {
        await assert.rejects(
          openai.chat.completions.create(ask(model, [filePart(file)])),
          (error) => {
            assert.ok(error instanceof BadRequestError);
            assert.equal(error.code, "invalid_media");
            assert.match(error.message, /^400 messages\[0\]\.content\[0\]: /);
            assert.match(error.message, reason);
            return true;
          },
        );
      }
      const data = documentFile("no pages").toBase64();
      const source = { type: "base64", media_type: "application/pdf", data } as const;
      const content = [
        { type: "text", text: "Look:" } as const,
        { type: "document", source } as const,
      ];
      await assert.rejects(
        anthropic.messages.create({
          model,
          max_tokens: 5,
          messages: [{ role: "user", content }],
        }),
        /messages\[0\]\.content\[1\]: The PDF has no pages/,
      );
      await assert.rejects(
        openai.responses.create({
          model,
          // deno-lint-ignore no-explicit-any -- the client's types want one of the fields
          input: [{ role: "user", content: [{ type: "input_file", file_id: "file-1" } as any] }],
        }),
        /input\[0\]\.content\[0\].*files by id are not supported/,
      );
    },
  ));

Deno.test("documents: the server keeps working when a client with a hostile file disconnects", () =>
  withServer({ model: "hearth-demo-ocr" }, async ({ openai }) => {
    const model = "hearth-demo-ocr";
    const abort = new AbortController();
    const asked = openai.chat.completions.create(ask(model, [filePart(writeBomb())]), {
      signal: abort.signal,
    });
    setTimeout(() => abort.abort(), 300);
    await assert.rejects(asked);
    // Another thread reads this file, while one is still busy with the hostile file.
    const { choices } = await openai.chat.completions.create(
      ask(model, [filePart(documentFile("text"))]),
    );
    assert.equal(choices[0]!.message.content, PAGES.join("\n\f"));
  }));
