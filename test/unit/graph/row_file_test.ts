import assert from "node:assert/strict";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { RowFile } from "../../../src/graph/file/stored_range.ts";
import type { StoredTensor } from "../../../src/graph/file/tensor.ts";

const ELEMENTS = Float32Array.from({ length: 12 }, (_, i) => i / 2);
const OFFSET = 8;

function table(length: number): StoredTensor {
  const data = { kind: "file", file: "weights", offset: OFFSET, length } as const;
  return { name: "table", dtype: "float32", shape: [length / 16, 4], data };
}

Deno.test("RowFile reads rows of f32 from a constant's file, and reports if it has become shorter", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/weights`;
  await Deno.writeFile(path, new Uint8Array(OFFSET + 48));
  using file = await Deno.open(path, { write: true });
  await file.seek(OFFSET, Deno.SeekMode.Start);
  await file.write(new Uint8Array(ELEMENTS.buffer));
  await using files = new FolderFiles(folder);
  {
    using rows = await RowFile.open(table(48), files);
    assert.deepEqual(rows.read(2), ELEMENTS.subarray(8, 12));
    assert.deepEqual(rows.read(0), ELEMENTS.subarray(0, 4));
    await Deno.truncate(path, OFFSET + 40);
    assert.throws(() => rows.read(2), /has become shorter while it is served/);
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("RowFile widens rows of f16", async () => {
  const folder = await Deno.makeTempDir();
  await Deno.writeFile(`${folder}/weights`, new Uint8Array(new Float16Array(ELEMENTS).buffer));
  const data = { kind: "file", file: "weights", offset: 0, length: 24 } as const;
  const source = { name: "halves", dtype: "float16", shape: [3, 4], data } as const;
  const widened = { kind: "widened", source, length: 48 } as const;
  const wide: StoredTensor = { name: "table", dtype: "float32", shape: [3, 4], data: widened };
  assert(RowFile.canRead(wide));
  {
    await using files = new FolderFiles(folder);
    using rows = await RowFile.open(wide, files);
    assert.deepEqual(rows.read(2), ELEMENTS.subarray(8, 12));
    assert.deepEqual(rows.read(1), ELEMENTS.subarray(4, 8));
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("RowFile widens rows of bf16", async () => {
  const folder = await Deno.makeTempDir();
  // bf16 is the upper half of an f32. The lower halves of these numbers are 0.
  const bits = new Uint16Array(ELEMENTS.buffer).filter((_, i) => i % 2 === 1);
  await Deno.writeFile(`${folder}/weights`, new Uint8Array(bits.buffer));
  const data = { kind: "file", file: "weights", offset: 0, length: 24 } as const;
  const source = { name: "brain", dtype: "bfloat16", shape: [3, 4], data } as const;
  const widened = { kind: "widened", source, length: 48 } as const;
  const wide: StoredTensor = { name: "table", dtype: "float32", shape: [3, 4], data: widened };
  {
    await using files = new FolderFiles(folder);
    using rows = await RowFile.open(wide, files);
    assert.deepEqual(rows.read(2), ELEMENTS.subarray(8, 12));
    assert.deepEqual(rows.read(1), ELEMENTS.subarray(4, 8));
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("RowFile.canRead() accepts f32 in files, but not f16 and not constants in memory", () => {
  assert(RowFile.canRead(table(48)));
  assert(!RowFile.canRead({ ...table(48), dtype: "float16" }));
  const data = { kind: "memory", bytes: new Uint8Array(48) } as const;
  assert(!RowFile.canRead({ ...table(48), data }));
});
