/**
 * Items in a Responses history that come from tools that this server does not have. The conversation continues without
 * them.
 *
 * @module
 */

type Fields = Readonly<Record<string, unknown>>;

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
export function readHostedItem(item: unknown): unknown {
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
