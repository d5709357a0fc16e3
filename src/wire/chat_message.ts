/**
 * The messages of a chat request.
 *
 * @module
 */
import { z } from "zod";
import { asReference, ContentPart } from "./content_part.ts";
import { cutAtFirstBad, listSchema, openObject, text } from "./fields.ts";

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"] as const;

const contentWanted = "a string or an array of content parts that is not empty";

/** Content that may be null, absent or empty. */
const Content = cutAtFirstBad(
  ContentPart,
  z.union([z.string(), z.array(ContentPart), z.null()], { error: contentWanted }),
);

const words = () => z.string({ error: "a string" }).nullish();

const FunctionCall = z.object({
  name: text("the name of a function"),
  arguments: z.string({ error: "a string of JSON" }),
}, { error: "an object with name and arguments" }).meta({ id: "FunctionCall" });

const argumentsWanted = "a string of JSON, or an object";
const ToolCall = z.object({
  id: words(),
  type: z.literal("function", { error: '"function"' }).nullish(),
  function: z.object({
    name: text("the name of a function"),
    arguments: z.union([z.string(), openObject(argumentsWanted)], { error: argumentsWanted })
      .nullish(),
  }, { error: "an object with name and arguments" }),
}, { error: "an object with id, type and function" }).meta({ id: "ToolCall" });

/** One message. Fields that its role does not use are ignored. */
export const ChatMessage = z.preprocess(
  appendImages,
  z.object({
    role: z.enum(ROLES, { error: `one of ${ROLES.join(", ")}` }),
    content: Content.optional().describe(
      "May be null, absent or empty in messages of assistants and tools",
    ),
    name: words().describe("Name of the function whose result a tool message holds"),
    tool_calls: listSchema(ToolCall).nullish().describe("The calls that the assistant made"),
    tool_call_id: words().describe("The call that a tool message answers"),
    function_call: FunctionCall.nullish().meta({ deprecated: true }),
    images: listSchema(text("an image: base64, or a media reference")).nullish().describe(
      "Images to append to the content, as Ollama's clients send them: base64, or references",
    ),
    refusal: words(),
    reasoning_content: words().describe("What the assistant thought; for templates that take it"),
    reasoning: words().describe("Another name of reasoning_content"),
  }, { error: "a message object with role and content" })
    .refine(hasContent, { path: ["content"], error: contentWanted })
    .meta({ id: "ChatMessage" }),
);

export type ChatMessage = z.output<typeof ChatMessage>;

/** Appends `images`, which Ollama's clients send beside the content, to the content. */
function appendImages(message: unknown): unknown {
  if (typeof message !== "object" || message === null) return message;
  const { images, ...others } = message as { images?: unknown; content?: unknown };
  if (!Array.isArray(images) || !images.every((image) => typeof image === "string")) return message;
  const { content = "" } = others;
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content ?? [];
  if (images.length === 0 || !Array.isArray(parts)) return others;
  const added = images.map((image) => ({ type: "image", image_url: asReference(image) }));
  return { ...others, content: [...parts, ...added] };
}

/**
 * Whether a message has the content that its role needs. Some clients keep an answer that was stopped without its text,
 * and functions may return nothing.
 */
function hasContent(
  { role, content }: { readonly role: string; readonly content?: unknown },
): boolean {
  if (role === "assistant" || role === "tool" || role === "function") return true;
  return (content ?? null) !== null && !(Array.isArray(content) && content.length === 0);
}
