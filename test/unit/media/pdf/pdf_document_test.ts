import assert from "node:assert/strict";
import type { Pixels } from "../../../../src/media/pixels.ts";
import { PdfDocument } from "../../../../src/media/pdf/pdf_document.ts";
import { isPdf } from "../../../../src/media/file_bytes.ts";
import {
  documentFile,
  DOCUMENTS,
  GRID,
  writeBomb,
  writePage,
  writePdf,
} from "../../../fixtures/documents/documents.ts";

/** Much more than needed: only a hang takes that long. */
const maxMs = 60_000;
const resolution = { dpi: 144 };
/**
 * Allowed difference of a cell's mean colours: Poppler replaces missing fonts by others, and cells that end within a
 * pixel are rounded.
 */
const MAX_DIFFERENCE = 12;

/** The mean colours of a page's cells. */
function readCells({ width, height, data }: Pixels): number[] {
  const cells: number[] = [];
  const columnWidth = width / GRID.columns;
  const rowHeight = height / GRID.rows;
  for (let row = 0; row < GRID.rows; row++) {
    for (let column = 0; column < GRID.columns; column++) {
      const sums = [0, 0, 0];
      let numPixels = 0;
      for (let y = Math.round(row * rowHeight); y < Math.round((row + 1) * rowHeight); y++) {
        const [start, end] = [column, column + 1].map((at) => Math.round(at * columnWidth));
        for (let x = start!; x < end!; x++, numPixels++) {
          sums.forEach((_, channel) => sums[channel]! += data[(y * width + x) * 3 + channel]!);
        }
      }
      cells.push(...sums.map((sum) => sum / numPixels));
    }
  }
  return cells;
}

async function refusal(file: Uint8Array, options = { maxMs }): Promise<string> {
  try {
    using document = await PdfDocument.open(file, options);
    for (let index = 0; index < document.numPages; index++) {
      document.renderPage(index, { resolution, ...options });
    }
  } catch (error) {
    assert.equal((error as { kind?: unknown }).kind, "invalid_media");
    return (error as Error).message;
  }
  return "";
}

for (const [name, { pages }] of Object.entries(DOCUMENTS)) {
  Deno.test(`PdfDocument draws and reads like Poppler: ${name}`, async () => {
    const file = documentFile(name);
    assert.ok(isPdf(file));
    using document = await PdfDocument.open(file, { maxMs });
    assert.equal(document.numPages, pages.length);
    for (const [index, { width, height, cells, words }] of pages.entries()) {
      const page = document.renderPage(index, { resolution, maxMs });
      assert.deepEqual([page.width, page.height, page.channels], [width, height, 3]);
      const differences = readCells(page).map((value, at) => Math.abs(value - cells[at]!));
      const worst = Math.max(...differences);
      assert.ok(worst < MAX_DIFFERENCE, `page ${index + 1}: a cell differs by ${worst}`);
      const read = document.readText(index, { maxMs }).split(/\s+/).filter((word) => word !== "");
      assert.deepEqual(read.sort(), words);
    }
  });
}

Deno.test("PdfDocument refuses unreadable files with a reason", async () => {
  const noFile = new TextEncoder().encode("%PDF-1.7\nnothing");
  assert.match(await refusal(documentFile("user password")), /encrypted and needs a password/);
  assert.match(await refusal(documentFile("no pages")), /^The PDF has no pages\.$/);
  assert.match(await refusal(documentFile("cut off")), /damaged or cut off/);
  assert.match(await refusal(noFile), /damaged or cut off/);
  assert.match(await refusal(writePdf(["<< /Type /Catalog >>"])), /has no pages/);
  const circle = writePdf([
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [2 0 R] /Count 1 >>",
  ]);
  assert.match(await refusal(circle), /^Page 1 of the PDF is damaged/);
});

Deno.test("PdfDocument stops a page that takes too long, and reads the next file", async () => {
  assert.match(await refusal(writeBomb(), { maxMs: 300 }), /^Page 1 .* takes longer to read than/);
  using document = await PdfDocument.open(documentFile("text"), { maxMs });
  assert.match(document.readText(0, { maxMs }), /^Invoice 1: 42 EUR\nThe quick/);
});

Deno.test("PdfDocument does not keep the memory of files that exhausted it", async () => {
  const before = Deno.memoryUsage().rss;
  for (let round = 0; round < 3; round++) {
    assert.match(
      await refusal(writeBomb(), { maxMs: 10_000 }),
      /^Page 1 .* (too much|takes longer)/,
    );
  }
  // An instance may have 512 MiB; the last one is collected with the next file.
  const megabytes = (Deno.memoryUsage().rss - before) / 2 ** 20;
  assert.ok(megabytes < 1_400, `${megabytes} MB`);
});

Deno.test("PdfDocument draws pages of any size within the limits", async () => {
  const computeSize = async (fields: string) => {
    using document = await PdfDocument.open(writePage(fields), { maxMs });
    const limits = { ...resolution, maxPixels: 1e6 };
    const { width, height, data } = document.renderPage(0, { resolution: limits, maxMs });
    assert.equal(data.length, width * height * 3);
    assert.ok(width * height <= 1e6, `${width} × ${height}`);
    return [width, height];
  };
  assert.deepEqual(await computeSize("/MediaBox [0 0 0.4 0.4]"), [1, 1]);
  assert.deepEqual(await computeSize("/MediaBox [0 0 14400 1]"), [16384, 2]);
  assert.deepEqual(await computeSize("/MediaBox [0 0 14400 14400] /UserUnit 10"), [1000, 1000]);
  assert.deepEqual(await computeSize("/MediaBox [0 0 99999999 99999999]"), [1000, 1000]);
  // Letter is the default size.
  assert.deepEqual(await computeSize(""), await computeSize("/MediaBox [0 0 612 792]"));
  assert.deepEqual(await computeSize("/MediaBox [0 0 1e400 foo]"), await computeSize(""));
});

Deno.test("isPdf() recognizes PDF files", () => {
  const encode = (text: string) => new TextEncoder().encode(text);
  assert.ok(isPdf(encode("%PDF-1.4")));
  assert.ok(isPdf(encode(`${" ".repeat(1000)}%PDF-2.0`)));
  assert.ok(!isPdf(encode(`${" ".repeat(2000)}%PDF-2.0`)));
  assert.ok(!isPdf(encode("%PD")));
  assert.ok(!isPdf(encode("")));
});

Deno.test("PdfDocument reads Chinese in a font that the file does not contain, and draws nothing for it", async () => {
  const order = "/CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 4 >>";
  const font = "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H " +
    `/DescendantFonts [<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light ${order} >>] >>`;
  // 你好世界
  const content = "BT /F 30 Tf 20 40 Td <4F60597D4E16754C> Tj ET";
  const page = `/MediaBox [0 0 300 100] /Resources << /Font << /F ${font} >> >>`;
  using document = await PdfDocument.open(writePage(page, content), { maxMs });
  assert.equal(document.readText(0, { maxMs }), "你好世界");
  const { data } = document.renderPage(0, { resolution, maxMs });
  assert.ok(data.every((level) => level === 255));
});
