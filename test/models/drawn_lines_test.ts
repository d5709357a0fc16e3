/** Images of one line with large or small margins, drawn in a font that the built-in model was not trained on. */
import assert from "node:assert/strict";
import { distance } from "fastest-levenshtein";
import { encodePng } from "../../src/media/image/png.ts";
import { chat, imageMessage } from "../fixtures/engine/chat.ts";
import { computeWidth, Drawing } from "../fixtures/images/drawing.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { openModel } from "../fixtures/engine/model.ts";

const TEXTS = ["www.example.org", "Invoice 20417", "Save changes", "MEETING ROOM 4"];
const SIZE = 24;
/** Largest share of wrong letters, among images of one height. */
const MOST_WRONG = 0.05;

Deno.test("LineOcrModel reads a line with any margins above and below", async () => {
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

Deno.test("LineOcrModel returns the positions of lines, in Florence's format, if regions are requested", async () => {
  await using model = await openModel(findModelFolder("hearth-demo-ocr")!);
  const lines = [
    { text: "Invoice 20417", x: 30, baseline: 50 },
    { text: "Save changes", x: 30, baseline: 110 },
    // In the same row as the previous line.
    { text: "Cancel", x: 330, baseline: 110 },
  ];
  const drawing = new Drawing({ width: 480, height: 160 });
  for (const { text, x, baseline } of lines) drawing.text(text, { x, baseline, size: SIZE });
  const png = encodePng(drawing.pixels);
  const ask = (text: string, options = {}) =>
    chat(model, [imageMessage(png.slice(), text)], options);
  const plain = await ask("");
  assert.equal(plain.texts[0], "Invoice 20417\nSave changes Cancel");
  const { labels, quad_boxes: boxes } = JSON.parse((await ask("<OCR_WITH_REGION>")).texts[0]!);
  assert.deepEqual(labels, lines.map(({ text }) => text));
  assert.equal(boxes.length, lines.length);
  lines.forEach(({ text, x, baseline }, index) => {
    const corners: number[] = boxes[index];
    const [left, top, right, , , bottom] = corners as [
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    const near = (seen: number, wanted: number) =>
      assert.ok(Math.abs(seen - wanted) <= SIZE / 2, `${text}: ${corners}`);
    near(left, x);
    near(right, x + computeWidth(text, { size: SIZE }));
    near(bottom, baseline);
    near(top, baseline - 0.75 * SIZE);
  });
  // A truncated answer has no more boxes than lines.
  const cut = JSON.parse((await ask("<OCR_WITH_REGION>", { maxTokens: 16 })).texts[0]!);
  assert.deepEqual(cut.labels, ["Invoice 20417", "Sa"]);
  assert.equal(cut.quad_boxes.length, 2);
  const blank = imageMessage(
    encodePng(new Drawing({ width: 64, height: 64 }).pixels),
    "<OCR_WITH_REGION>",
  );
  assert.deepEqual(JSON.parse((await chat(model, [blank])).texts[0]!), {
    labels: [],
    quad_boxes: [],
  });
});
