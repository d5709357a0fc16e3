import assert from "node:assert/strict";
import {
  type CompiledSegment,
  listOrtSegments,
  listPrograms,
  lowerCut,
} from "../../../src/program/compile_cut.ts";
import type { OperandLayout, Program } from "../../../src/program/program.ts";

/** Two layers: the first has a recurrence and an attention, the second an attention. */
const CUT = {
  segments: [{ index: 0 }, { index: 1 }, { index: 2 }],
  attentions: [{ afterSegment: 0 }, { afterSegment: 1 }],
  states: [{ afterSegment: 0 }],
};

const ROWS = { tensor: "qkv", tokenStride: 12, offset: 0 };

/** Makes a program without dispatches that stores the operands of attention `layer` in another layout. */
function makeProgram(layer?: number): Program {
  const makeLayout = (layer: number): OperandLayout => ({
    layer,
    q: ROWS,
    k: ROWS,
    v: ROWS,
    scale: 1,
  });
  const layouts = layer === undefined ? [] : [makeLayout(layer)];
  return { dispatches: [], weights: [], scratch: new Map(), layouts };
}

const [few, many, last] = [makeProgram(0), makeProgram(0), makeProgram()];
const SEGMENTS: readonly CompiledSegment[] = [
  { few, many },
  { refused: "It has no kernel." },
  { few: last, many: last },
];

Deno.test("lowerCut() runs segments that are not compiled in ONNX Runtime, and keeps the order of the cut", () => {
  const programs = lowerCut(CUT, { segments: SEGMENTS, kernels: ["few", "many"] });
  const [layout] = few.layouts;
  assert.deepEqual(programs.few, [
    { kind: "kernels", segment: 0, program: few },
    { kind: "attention", node: 0, layout },
    { kind: "state_update", state: 0 },
    { kind: "ort", segment: 1 },
    { kind: "attention", node: 1, layout: undefined },
    { kind: "kernels", segment: 2, program: last },
  ]);
  assert.deepEqual([...listOrtSegments(programs)], [1]);
  assert.deepEqual(listPrograms(programs), [few, last, many, last]);
});

Deno.test("lowerCut() runs all segments of a lowering without kernels in ONNX Runtime, and ignores the programs' operand layouts", () => {
  const { few: withKernels, many: without } = lowerCut(CUT, {
    segments: SEGMENTS,
    kernels: ["few"],
  });
  assert.deepEqual(without, lowerCut(CUT).many);
  assert.deepEqual(
    without.map(({ kind }) => kind),
    ["ort", "attention", "state_update", "ort", "attention", "ort"],
  );
  assert.ok(without.every((each) => each.kind !== "attention" || each.layout === undefined));
  assert.equal(withKernels[0]!.kind, "kernels");
  assert.deepEqual([...listOrtSegments({ few: withKernels, many: without })], [1, 0, 2]);
});
