/**
 * The items of a request to `/responses`, and of the history of a stored response.
 *
 * @module
 */
import { z } from "zod";
import { InputAudioPart, MediaReference } from "./chat_message.ts";
import { anyText, cutAtFirstBad, text } from "./fields.ts";

const TextPart = z.object({
  type: z.enum(["input_text", "output_text", "text"]),
  text: anyText(),
});
const RefusalPart = z.object({ type: z.literal("refusal"), refusal: anyText() });
const ImagePart = z.object({
  type: z.literal("input_image"),
  image_url: MediaReference.describe("An image by reference; files by id are not served"),
});

const FilePart = z.object({
  type: z.literal("input_file"),
  file_data: text("a media reference, or base64").nullish()
    .describe("A PDF, an image or a text file: a media reference, or base64"),
  file_url: MediaReference.nullish(),
  filename: anyText().nullish(),
}).refine(({ file_data: data, file_url: url }) => Boolean(data) !== Boolean(url), {
  error: "file_data or file_url; files by id are not served",
});

const Part = z.discriminatedUnion(
  "type",
  [TextPart, RefusalPart, ImagePart, InputAudioPart, FilePart],
  {
    error: "a content part whose type is one of input_text, output_text, refusal, input_image, " +
      "input_audio, input_file",
  },
);

const contentWanted = "a string or an array of content parts";
const Content = cutAtFirstBad(
  Part,
  z.union([z.string(), z.array(Part)], { error: contentWanted }),
);

const MESSAGE_ROLES = ["system", "developer", "user", "assistant"] as const;

const Message = z.object({
  type: z.literal("message").optional(),
  role: z.enum(MESSAGE_ROLES, { error: `one of ${MESSAGE_ROLES.join(", ")}` }),
  content: Content,
});

const FunctionCall = z.object({
  type: z.literal("function_call"),
  call_id: text("the id of a call"),
  name: text("the name of a function"),
  namespace: anyText().nullish(),
  arguments: anyText(),
});

const FunctionCallOutput = z.object({
  type: z.literal("function_call_output"),
  call_id: text("the id of a call"),
  output: Content,
});

const ReasoningText = z.object({ text: anyText() });
const Reasoning = z.object({
  type: z.literal("reasoning"),
  summary: z.array(ReasoningText).nullish(),
  content: z.array(ReasoningText).nullish(),
});

const ItemReference = z.object({
  type: z.literal("item_reference"),
  id: text("the id of an item of a stored response"),
});

/** An item of a tool that this server does not have. */
const HostedItem = z.object({
  type: z.literal("hosted"),
  item: z.looseObject({ type: text() }),
});

const TypedItem = z.discriminatedUnion(
  "type",
  [
    Message.extend({ type: z.literal("message") }),
    FunctionCall,
    FunctionCallOutput,
    Reasoning,
    ItemReference,
    HostedItem,
  ],
  {
    error: "an item whose type is one of message, function_call, function_call_output, " +
      "reasoning, item_reference",
  },
);

/** An item of a request's input. A message may omit its `type`. Items of tools that this server does not have are accepted. */
export const InputItem = z.preprocess(
  (value) =>
    typeof value === "object" && value !== null && "role" in value && !("type" in value)
      ? { type: "message", ...value }
      : readHostedItem(value),
  TypedItem,
);

/** An item of a request's input or of a stored response's history. */
export type InputItem = z.output<typeof TypedItem>;
/** A part of an item's content. */
export type InputPart = z.output<typeof Part>;

type Fields = Readonly<Record<string, unknown>>;

// Items of tools that this server does not have: the conversation continues without them.

/** Types of calls that the client ran itself, with the name of the tool and the field that holds its input. */
const CLIENT_CALLS: Readonly<Record<string, readonly [name: string | undefined, field: string]>> = {
  custom_tool_call: [undefined, "input"],
  local_shell_call: ["local_shell", "action"],
  shell_call: ["shell", "action"],
  apply_patch_call: ["apply_patch", "operation"],
};

/** Types of items that are accepted unchanged. */
const OWN_TYPES: ReadonlySet<unknown> = new Set([
  "message",
  "function_call",
  "function_call_output",
  "reasoning",
  "item_reference",
  "hosted",
]);

/**
 * Converts an item to one that the schema accepts. Calls that the client ran itself become function calls with outputs;
 * items of other tools become `hosted`, which the model is not shown.
 */
function readHostedItem(item: unknown): unknown {
  if (typeof item !== "object" || item === null) return item;
  const fields = item as Fields;
  const { type } = fields;
  if (typeof type !== "string" || type === "" || OWN_TYPES.has(type)) return item;
  const called = Object.hasOwn(CLIENT_CALLS, type) ? CLIENT_CALLS[type] : undefined;
  const callId = fields["call_id"] ?? fields["id"];
  if (called !== undefined) {
    const [name = String(fields["name"] ?? "tool"), field] = called;
    const json = JSON.stringify(field === "input" ? { input: fields[field] } : fields[field] ?? {});
    return { type: "function_call", call_id: callId, name, arguments: json };
  }
  if (Object.hasOwn(CLIENT_CALLS, type.replace(/_output$/, ""))) {
    return { type: "function_call_output", call_id: callId, output: toOutput(fields["output"]) };
  }
  return { type: "hosted", item };
}

/** Returns text and parts unchanged, and anything else as JSON. */
function toOutput(output: unknown): unknown {
  const hasParts = Array.isArray(output) &&
    output.every((part) => /^(input|output)_/.test(String((part as Fields | null)?.["type"])));
  return typeof output === "string" || hasParts ? output : JSON.stringify(output ?? "");
}
