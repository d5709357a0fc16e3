import assert from "node:assert/strict";
import {
  findNewestLeaf,
  findPathThrough,
  listChildren,
  makeTitle,
  putTurn,
  type Turn,
} from "../../../src/ui/chat/conversation.ts";

function turn(
  id: string,
  parentId: string | null,
  createdMs: number,
  more: Partial<Turn> = {},
): Turn {
  return { id, parentId, createdMs, conversationId: "c", role: "user", text: id, ...more };
}

/** q1 has the answers a1 and a2; a1 is followed by q2, and q2 by a3. */
const TURNS = [
  turn("q1", null, 1),
  turn("a2", "q1", 5, { role: "assistant" }),
  turn("a1", "q1", 2, { role: "assistant" }),
  turn("q2", "a1", 3),
  turn("a3", "q2", 4, { role: "assistant" }),
];

const getIds = (turns: readonly Turn[]) => turns.map(({ id }) => id);

Deno.test("findPathThrough() returns the newest branch through a turn, or the newest of all if the turn is unknown", () => {
  assert.deepEqual(getIds(findPathThrough(TURNS, "a1")), ["q1", "a1", "q2", "a3"]);
  assert.deepEqual(getIds(findPathThrough(TURNS, "q1")), ["q1", "a2"]);
  assert.deepEqual(getIds(findPathThrough(TURNS, null)), ["q1", "a2"]);
  assert.deepEqual(getIds(findPathThrough(TURNS, "gone")), ["q1", "a2"]);
  assert.deepEqual(findPathThrough([], null), []);
});

Deno.test("findPathThrough() skips deleted turns", () => {
  const deleted = putTurn(TURNS, { ...TURNS[2]!, deletedMs: 9 });
  assert.deepEqual(getIds(findPathThrough(deleted, "a3")), ["q1", "a2"]);
  const all = putTurn(TURNS, { ...TURNS[0]!, deletedMs: 9 });
  assert.deepEqual(findPathThrough(all, "a3"), []);
});

Deno.test("listChildren() sorts by time, and findNewestLeaf() returns the end of the newest branch", () => {
  assert.deepEqual(getIds(listChildren(TURNS, "q1")), ["a1", "a2"]);
  assert.equal(findNewestLeaf(TURNS, "a1"), "a3");
  assert.equal(findNewestLeaf(TURNS, null), "a2");
});

Deno.test("makeTitle() returns the beginning of the first question, or what it has instead of text", () => {
  assert.equal(makeTitle([turn(" What? ", null, 1)]), "What?");
  const image = { images: ["data:image/png;base64,AA"] };
  assert.equal(makeTitle([turn("1", null, 1, { text: "", ...image })]), "Image");
  const files = [{ name: "a.txt", text: "" }];
  assert.equal(makeTitle([turn("1", null, 1, { text: "", files })]), "a.txt");
  assert.equal(makeTitle([turn("x".repeat(100), null, 1)]).length, 60);
});
