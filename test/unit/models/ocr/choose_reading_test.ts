import assert from "node:assert/strict";
import { chooseReading, type LineCharacter } from "../../../../src/models/ocr/text_recognition.ts";

const LATIN = { characters: ["1", "2", "D", " "] };
const JAPANESE = { characters: ["１", "２", "の", "学", "校"] };

function read(ids: readonly number[], probability: number): LineCharacter[] {
  return ids.map((id) => ({ id, probability, top: [] }));
}

Deno.test("chooseReading() chooses the first of two recognisers that read the same text", () => {
  const lines = [{ width: 40, height: 32 }];
  const readings = [[read([0, 3, 1], 0.9)], [read([0, 1], 0.99)]];
  assert.equal(chooseReading(lines, readings, [LATIN, JAPANESE]), 0);
});

Deno.test("chooseReading() prefers a reading without omitted characters", () => {
  const lines = [{ width: 96, height: 32 }];
  const readings = [[read([2], 0.9)], [read([2, 3, 4], 0.72)]];
  assert.equal(chooseReading(lines, readings, [LATIN, JAPANESE]), 1);
});

Deno.test("chooseReading() decides by the lines with different readings", () => {
  const lines = [{ width: 40, height: 32 }, { width: 96, height: 32 }];
  const alike = [read([0, 1], 0.9), read([0, 1], 0.99)];
  const other = [read([2, 2, 2], 0.6), read([2, 3, 4], 0.95)];
  const readings = [0, 1].map((i) => [alike[i]!, other[i]!]);
  assert.equal(chooseReading(lines, readings, [LATIN, JAPANESE]), 1);
});

Deno.test("chooseReading() chooses the first if nothing is read", () => {
  assert.equal(chooseReading([{ width: 9, height: 9 }], [[[]], [[]]], [LATIN, JAPANESE]), 0);
});
