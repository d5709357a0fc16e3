import assert from "node:assert/strict";
import { StartupError } from "../../../src/base/errors.ts";
import {
  hasSubgraph,
  int64Tensor,
  makeNode,
  readFloatAttribute,
  readIntAttribute,
  readIntsAttribute,
  readStringAttribute,
} from "../../../src/graph/file/proto.ts";
import { decodeTensorMessage, writeModel } from "../../../src/graph/file/proto_codec.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import {
  MessageWriter,
  readFields,
  readInt64Varint,
  readSmallVarint,
} from "../../../src/graph/file/wire.ts";
import { buildModel, constant, ints } from "../../fixtures/graphs/onnx_builder.ts";
import { inMemory } from "./test_decoder.ts";

Deno.test("int64Tensor() keeps the largest int64, which doubles round up", () => {
  const { data } = int64Tensor("end", [2], [Number(2n ** 63n - 1n), -(2 ** 63)]);
  assert.ok(data.kind === "memory");
  const values = new BigInt64Array(data.bytes.slice().buffer);
  assert.deepEqual([...values], [2n ** 63n - 1n, -(2n ** 63n)]);
});

const encode = (text: string) => new TextEncoder().encode(text);

function smallModel(): Uint8Array {
  return buildModel({
    nodes: [
      makeNode("Gemm", ["x", "w", ""], ["y"], {
        attributes: { alpha: { float: 0.5 }, transB: 1, axes: [-1, 2 ** 40], mode: "linear" },
      }),
    ],
    inputs: [["x", "float32", ["batch", 4]]],
    outputs: [["y", "float32", ["batch", 3]]],
    initializers: [
      constant("w", [3, 4], Float32Array.from({ length: 12 }, (_, i) => i / 4)),
      ints("sizes", [-1, 0, 7]),
    ],
  });
}

Deno.test("readModel() and writeModel() return the same bytes", async () => {
  const bytes = smallModel();
  const model = await readModel(inMemory(bytes), "model.onnx");
  assert.deepEqual(writeModel(model), bytes);
  assert.deepEqual(model.operatorSets[0], { domain: "", version: 17 });
  assert.deepEqual(model.graph.inputs[0]!.shape, ["batch", 4]);
  assert.deepEqual(model.graph.initializers[1]!.shape, [3]);
});

Deno.test("readModel() reads attributes of every kind that the cut uses", async () => {
  const { graph } = await readModel(inMemory(smallModel()), "model.onnx");
  const [node] = graph.nodes;
  assert.equal(readFloatAttribute(node!, "alpha"), 0.5);
  assert.equal(readIntAttribute(node!, "transB"), 1);
  assert.deepEqual(readIntsAttribute(node!, "axes"), [-1, 2 ** 40]);
  assert.equal(readStringAttribute(node!, "mode"), "linear");
  assert.equal(readIntAttribute(node!, "absent"), undefined);
  assert.equal(hasSubgraph(node!), false);
  assert.deepEqual(node!.inputs, ["x", "w", ""]);
});

Deno.test("writeModel() keeps fields that Hearth does not understand, at every level", async () => {
  const node = new MessageWriter().text(1, "x").text(2, "y").text(4, "Relu")
    .text(6, "a comment").int(900, 5).finish();
  const type = new MessageWriter().message(
    1,
    new MessageWriter().int(1, 1).message(
      2,
      new MessageWriter().message(1, new MessageWriter().text(3, "denoted")),
    ),
  );
  const value = new MessageWriter().text(1, "x").message(2, type).text(3, "about x");
  const tensor = new MessageWriter().int(1, 1).int(2, 1).text(8, "w").bytes(9, new Uint8Array(4))
    .text(12, "about w");
  const graph = new MessageWriter().bytes(1, node).text(2, "g").message(5, tensor).message(
    11,
    value,
  )
    .text(10, "about the graph").bytes(15, new Uint8Array([8, 1]));
  const bytes = new MessageWriter().int(1, 8).text(2, "a producer").message(7, graph)
    .message(8, new MessageWriter().text(1, "").int(2, 17)).bytes(25, encode("a function"))
    .finish();
  const written = writeModel(await readModel(inMemory(bytes), "model.onnx"));
  const text = new TextDecoder("latin1").decode(written);
  const kept = [
    "a comment",
    "denoted",
    "about x",
    "about w",
    "about the graph",
    "a producer",
    "a function",
  ];
  for (const words of kept) assert.ok(text.includes(words), words);
  // After one round trip, nothing changes any more.
  assert.deepEqual(writeModel(await readModel(inMemory(written), "model.onnx")), written);
});

/** Elements of a tensor that was decoded from typed fields. */
function elements(message: MessageWriter): Uint8Array {
  const { data } = decodeTensorMessage(message.finish());
  assert.equal(data.kind, "memory");
  return (data as { bytes: Uint8Array }).bytes;
}

Deno.test("decodeTensorMessage() reads elements from typed fields, packed or not", () => {
  const floats = new Uint8Array(Float32Array.of(1.5, -2).buffer);
  assert.deepEqual(elements(new MessageWriter().int(1, 2).int(2, 1).bytes(4, floats)), floats);
  const longs = new Uint8Array(BigInt64Array.of(-1n, 300n).buffer);
  assert.deepEqual(elements(new MessageWriter().int(1, 2).int(2, 7).int(7, -1).int(7, 300)), longs);
  const half = new MessageWriter().int(1, 1).int(2, 10).int(5, 0x3c00);
  assert.deepEqual(elements(half), new Uint8Array(Float16Array.of(1).buffer));
  const flags = new MessageWriter().int(1, 3).int(2, 9).bytes(5, Uint8Array.of(1, 0, 1));
  assert.deepEqual(elements(flags), Uint8Array.of(1, 0, 1));
});

Deno.test("readModel() reports the end of a truncated file", async () => {
  const bytes = smallModel();
  const short = bytes.subarray(0, bytes.length - 20);
  await assert.rejects(readModel(inMemory(short), "model.onnx"), {
    name: "StartupError",
    message: /^model\.onnx is damaged or incomplete: at byte \d+ it promises/,
  });
});

Deno.test("readModel() refuses files that are not ONNX models", async () => {
  for (
    const [bytes, reason] of [
      [encode("<!doctype html>"), /Protocol Buffers/],
      [Uint8Array.of(0x0b, 0x0c), /wire type 3/],
      [new Uint8Array(), /it holds no graph/],
    ] as const
  ) {
    await assert.rejects(readModel(inMemory(bytes), "model.onnx"), (error: unknown) => {
      assert.ok(error instanceof StartupError, String(error));
      assert.match(error.message, /^model\.onnx is not an ONNX model: /);
      assert.match(error.message, reason);
      return true;
    });
  }
});

Deno.test("MessageWriter.int() and the varint readers agree on negative and large numbers", () => {
  for (const value of [0n, 1n, 127n, 128n, -1n, 2n ** 62n, -(2n ** 63n), 2n ** 63n - 1n]) {
    const [field] = readFields(new MessageWriter().int(3, value).finish());
    assert.equal(readInt64Varint(field!.payload), value);
  }
  const [field] = readFields(new MessageWriter().int(3, 2 ** 48).finish());
  assert.equal(readSmallVarint(field!.payload), 2 ** 48);
});

Deno.test("readModel() refuses a file of millions of empty fields before reading all of it", async () => {
  // 16 MB: eight million operator_set entries, of two bytes each.
  const bytes = new Uint8Array(16_000_000);
  for (let at = 0; at < bytes.length; at += 2) bytes[at] = 0x42;
  await assert.rejects(readModel(inMemory(bytes), "model.onnx"), {
    name: "StartupError",
    message: /model\.onnx is not a valid graph: .* more than 500000 fields/,
  });
});
