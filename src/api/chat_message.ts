/**
 * The messages of a chat request.
 *
 * @module
 */
import { z } from "zod";
import { ContentPart } from "./content_part.ts";
import { cutAtFirstBad, listOf, text } from "./fields.ts";

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"] as const;

const contentWanted = "a string or an array of content parts that is not empty";

/** The content of messages that need none. */
const Content = cutAtFirstBad(
  ContentPart,
  z.union([z.string(), z.array(ContentPart), z.null()], { error: contentWanted }),
);

const FunctionCall = z.object({
  name: text("the name of a function"),
  arguments: z.string({ error: "a string of JSON" }),
}, { error: "an object with name and arguments" }).meta({ id: "FunctionCall" });

const ToolCall = z.object({
  id: z.string({ error: "a string" }).optional(),
  type: z.literal("function", { error: '"function"' }).optional(),
  function: FunctionCall,
}, { error: "an object with id, type and function" }).meta({ id: "ToolCall" });

const words = () => z.string({ error: "a string" }).nullish();

/** One message. Fields that its role does not use are ignored. */
export const ChatMessage = z.object({
  role: z.enum(ROLES, { error: `one of ${ROLES.join(", ")}` }),
  content: Content.optional().describe(
    "May be null or absent only beside tool_calls, function_call, a refusal or reasoning",
  ),
  name: words().describe("Of the function that a tool message answers for"),
  tool_calls: listOf(ToolCall).nullish().describe("The calls that the assistant made"),
  tool_call_id: words().describe("The call that a tool message answers"),
  function_call: FunctionCall.nullish().meta({ deprecated: true }),
  refusal: words(),
  reasoning_content: words().describe("What the assistant thought; for templates that take it"),
  reasoning: words().describe("Another name of reasoning_content"),
}, { error: "a message object with role and content" })
  .refine(hasContent, { path: ["content"], error: contentWanted })
  .meta({ id: "ChatMessage" });

export type ChatMessage = z.output<typeof ChatMessage>;

function hasContent(message: {
  readonly role: string;
  readonly content?: unknown;
  readonly tool_calls?: readonly unknown[] | null | undefined;
  readonly function_call?: unknown;
  readonly refusal?: string | null | undefined;
  readonly reasoning_content?: string | null | undefined;
  readonly reasoning?: string | null | undefined;
}): boolean {
  const { role, content, tool_calls: calls } = message;
  const isEmpty = (content ?? null) === null || (Array.isArray(content) && content.length === 0);
  if (!isEmpty) return true;
  if (role !== "assistant") return false;
  const { function_call: call, refusal, reasoning_content: thought, reasoning } = message;
  return (calls ?? []).length > 0 || [call, refusal, thought, reasoning].some((each) => each);
}
