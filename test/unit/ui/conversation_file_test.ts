import assert from "node:assert/strict";
import type { Conversation, Turn } from "../../../src/ui/chat/conversation.ts";
import { readExport, writeExport } from "../../../src/ui/chat/conversation_file.ts";

const CONVERSATION: Conversation = { id: "c", title: "A cow", updatedMs: 7, headId: "2" };
const TURNS: Turn[] = [
  { conversationId: "c", id: "1", parentId: null, createdMs: 1, role: "user", text: "Hi" },
  { conversationId: "c", id: "2", parentId: "1", createdMs: 2, role: "assistant", text: "Moo" },
  { conversationId: "c", id: "3", parentId: "1", createdMs: 3, role: "assistant", text: "Mu" },
];

Deno.test("readExport() reads what writeExport() wrote", async () => {
  const blob = writeExport({ conversations: [CONVERSATION], turns: TURNS });
  assert.deepEqual(readExport(await blob.text()), { conversations: [CONVERSATION], turns: TURNS });
});

Deno.test("readExport() makes trees of the lists of version 1", () => {
  const messages = [
    { id: "1", role: "user", text: "Hi", images: ["data:image/png;base64,AA"] },
    { id: "1", role: "assistant", text: "Moo" },
  ];
  const { conversations: [head], turns } = readExport(JSON.stringify({
    format: "hearth-conversations",
    version: 1,
    conversations: [{ id: "c", title: "A cow", updatedMs: 7, messages }],
  }));
  assert.equal(head!.headId, turns[1]!.id);
  assert.notEqual(turns[0]!.id, turns[1]!.id);
  assert.deepEqual(turns.map(({ parentId }) => parentId), [null, "1"]);
});

/** What is said of a file with a change. */
function getFailure(
  change: (file: {
    version: unknown;
    format: unknown;
    // deno-lint-ignore no-explicit-any -- it is damaged on purpose
    conversations: any;
  }) => void,
): string {
  const tree = structuredClone({ ...CONVERSATION, turns: TURNS });
  const file = { format: "hearth-conversations", version: 2, conversations: [tree] };
  change(file);
  try {
    readExport(JSON.stringify(file));
  } catch (error) {
    return (error as Error).message;
  }
  return "";
}

Deno.test("readExport() says what is wrong with a file, and where", () => {
  assert.throws(() => readExport("{"), /not a file of exported conversations: .*JSON/);
  assert.throws(() => readExport("[]"), /not a file of exported conversations/);
  const cases: [Parameters<typeof getFailure>[0], RegExp][] = [
    [(file) => file.format = "other", /"format" is not/],
    [(file) => file.version = "2", /has version "2"; this page reads versions 1 and 2/],
    [(file) => file.conversations = {}, /"conversations" is not a list/],
    [(file) => file.conversations[0] = 3, /Conversation 1 is 3, not an object/],
    [(file) => file.conversations[0].title = 3, /Conversation 1 has 3 as "title"; wanted a string/],
    [(file) => file.conversations[0].turns = null, /Conversation 1 has no list of "turns"/],
    [(file) => file.conversations[0].headId = "9", /ends at a turn that is missing/],
    [
      (file) => file.conversations[0].turns[1].role = "x",
      /Turn 2 of conversation "A cow" has the role "x"; wanted user, assistant, tool/,
    ],
    [(file) => file.conversations[0].turns[1].text = null, /Turn 2 .* has null as "text"/],
    [(file) => file.conversations[0].turns[1].parentId = "9", /Turn 2 .* follows a turn that is/],
    [(file) => file.conversations[0].turns[1].conversationId = "d", /belongs to another/],
    [(file) => file.conversations[0].turns[1].createdMs = "1", /has no number "createdMs"/],
    [(file) => file.conversations[0].turns[2].id = "2", /two turns with the same id/],
    [(file) => file.conversations[0].turns[0].parentId = "2", /form a cycle/],
    [
      (file) => file.conversations[0].turns[0].images = ["https://example.org/a.png"],
      /images that are not data: URLs/,
    ],
    [(file) => file.conversations[0].turns[0].files = [{}], /damaged "files"/],
    [(file) => file.conversations[0].turns[1].figures = {}, /damaged "figures"/],
    [(file) => file.conversations[0].turns[1].tokens = [{}], /damaged "tokens"/],
    [(file) => file.conversations[0].turns[1].toolCalls = [1], /damaged "toolCalls"/],
  ];
  for (const [change, wanted] of cases) assert.match(getFailure(change), wanted);
  assert.equal(getFailure(() => {}), "");
});

Deno.test("readExport() leaves out of the settings what is none", () => {
  const settings = {
    system: 3,
    sampling: { temperature: 0.5, top_p: "x" },
    effort: "low",
    more: 1,
  };
  const { conversations: [head] } = readExport(JSON.stringify({
    format: "hearth-conversations",
    version: 2,
    conversations: [{ ...CONVERSATION, settings, turns: TURNS }],
  }));
  assert.deepEqual(head!.settings, {
    system: "",
    sampling: { temperature: 0.5 },
    schema: "",
    tools: "",
    showsProbabilities: false,
    effort: "low",
  });
});
