/** Images of one line with much or little around it, drawn in a font that the built-in model was not trained on. */
import assert from "node:assert/strict";
import { distance } from "fastest-levenshtein";
import { encodePng } from "../../src/media/png.ts";
import { chat, imageMessage } from "../fixtures/chat.ts";
import { Drawing } from "../fixtures/drawing.ts";
import { findModelFolder } from "../fixtures/goldens.ts";
import { openModel } from "../fixtures/model.ts";

const TEXTS = ["www.example.org", "Invoice 20417", "Save changes", "MEETING ROOM 4"];
const SIZE = 24;
/** Of the letters, among images of one height. */
const MOST_WRONG = 0.05;

Deno.test("LineOcrModel reads a line whatever margins it has above and below", async () => {
  await using model = await openModel(findModelFolder("hearth-demo-ocr")!);
  for (const height of [28, 38, 48, 55, 62, 90]) {
    let [wrong, letters] = [0, 0];
    const read: string[] = [];
    for (const text of TEXTS) {
      const baseline = Math.round(height / 2 + SIZE / 3);
      const drawing = new Drawing({ width: 300, height }).text(text, {
        x: 20,
        baseline,
        size: SIZE,
      });
      const answer = await chat(model, [imageMessage(encodePng(drawing.pixels))]);
      read.push(answer.texts[0]!);
      wrong += distance(answer.texts[0]!, text);
      letters += text.length;
    }
    assert.ok(wrong <= MOST_WRONG * letters, `${height} pixels high: ${read.join(" | ")}`);
  }
});
