/**
 * `POST /tokenize`, `/detokenize` and `/apply-template`: direct access to the model's tokenizer and chat template.
 *
 * @module
 */
import {
  ApplyTemplateRequest,
  ApplyTemplateResponse,
  DetokenizeRequest,
  DetokenizeResponse,
  TokenizeRequest,
  TokenizeResponse,
  tokenPiece,
} from "../../../wire/text_endpoints.ts";
import type { TokenizeTask } from "../../../models/task.ts";
import { readPromptOptions, readToolOptions } from "../chat/chat_task.ts";
import { readMessages } from "../chat/chat_messages.ts";
import { getMediaDeps, readRequest } from "../requests.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";

/** The endpoints for the tokenizer and the chat template. */
export function tokenRoutes(deps: AppDeps): Route[] {
  return [{
    method: "POST",
    path: "/tokenize",
    operation: {
      summary: "The tokens of a text or a conversation",
      request: TokenizeRequest,
      requestExamples: { "a text": { prompt: "What does a cow say?" } },
      response: { description: "The tokens", content: TokenizeResponse },
      errors: JSON_ERRORS,
    },
    handle: (call) => tokenize(call, deps),
  }, {
    method: "POST",
    path: "/detokenize",
    operation: {
      summary: "The text of tokens",
      request: DetokenizeRequest,
      requestExamples: { "two tokens": { tokens: [65, 66] } },
      response: { description: "The text", content: DetokenizeResponse },
      errors: JSON_ERRORS,
    },
    handle: (call) => detokenize(call, deps),
  }, {
    method: "POST",
    path: "/apply-template",
    operation: {
      summary: "Render a conversation with the chat template",
      request: ApplyTemplateRequest,
      requestExamples: {
        "a question": { messages: [{ role: "user", content: "What does a cow say?" }] },
      },
      response: {
        description: "The prompt",
        content: ApplyTemplateResponse,
      },
      errors: JSON_ERRORS,
    },
    handle: (call) => applyTemplate(call, deps),
  }];
}

async function tokenize(call: Call, deps: AppDeps): Promise<Response> {
  const { session } = deps;
  const request = await readRequest(call, deps, { schema: TokenizeRequest });
  const info = session.requireReady();
  const { prompt, content, messages, with_pieces: asObjects, return_token_strs: asList } = request;
  const { tokens, pieces } = await session.answer({
    type: "tokenize",
    requestId: call.get("requestId"),
    text: prompt ?? content ?? "",
    chat: messages && await readChat({ ...request, messages }, { call, deps }),
    // By default vLLM adds special tokens and llama.cpp does not. `prompt` is vLLM's name for the field.
    hasSpecial: request.add_special_tokens ?? request.add_special ?? typeof prompt === "string",
    withPieces: asObjects === true || asList === true,
    onlyRenders: false,
  }, { signal: call.req.raw.signal });
  return call.json({
    count: tokens.length,
    max_model_len: info.maxModelLength ?? info.contextLength ?? null,
    tokens: asObjects
      ? tokens.map((id, index) => ({ id, piece: tokenPiece(pieces![index]!.bytes) }))
      : tokens,
    token_strs: asList ? pieces!.map(({ token }) => token) : null,
  });
}

async function detokenize(call: Call, deps: AppDeps): Promise<Response> {
  const { tokens } = await readRequest(call, deps, { schema: DetokenizeRequest });
  const { text } = await deps.session.answer(
    { type: "detokenize", requestId: call.get("requestId"), tokens },
    { signal: call.req.raw.signal },
  );
  return call.json({ prompt: text, content: text });
}

async function applyTemplate(call: Call, deps: AppDeps): Promise<Response> {
  const request = await readRequest(call, deps, { schema: ApplyTemplateRequest });
  const { text } = await deps.session.answer({
    type: "tokenize",
    requestId: call.get("requestId"),
    text: "",
    chat: await readChat(request, { call, deps }),
    hasSpecial: false,
    withPieces: false,
    onlyRenders: true,
  }, { signal: call.req.raw.signal });
  return call.json({ prompt: text });
}

async function readChat(
  request: ApplyTemplateRequest,
  { call, deps }: { readonly call: Call; readonly deps: AppDeps },
): Promise<TokenizeTask["chat"]> {
  const options = { ...getMediaDeps(call, deps), info: deps.session.requireReady() };
  return {
    messages: await readMessages(request.messages, options),
    prompt: readPromptOptions(request),
    tools: readToolOptions(request),
  };
}
