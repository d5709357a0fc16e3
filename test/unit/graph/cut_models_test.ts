import assert from "node:assert/strict";
import { argmax, CutRunner, TestSequence } from "./cut_runner.ts";
import { distance } from "./compare.ts";
import { WholeGraph } from "./whole_graph.ts";
import { unlessThere } from "../../fixtures/engine/goldens.ts";

const BUILT_IN = new URL("../../../models/", import.meta.url).pathname;
const SHARED = new URL("../../../../shared/models/", import.meta.url).pathname;

interface Conversation {
  readonly prompt: readonly number[];
  readonly reply: readonly number[];
  /** Smallest difference between the two largest logits in any step of the reply. */
  readonly margin: number;
}

interface ModelCase {
  readonly folder: string;
  readonly file: string;
  /** Largest allowed difference from the whole graph's logits. */
  readonly tolerance: number;
}

const CASES: readonly ModelCase[] = [
  { folder: `${BUILT_IN}hearth-demo-chat`, file: "model.onnx", tolerance: 1e-4 },
  { folder: `${BUILT_IN}hearth-demo-chat`, file: "model_fp16.onnx", tolerance: 0.08 },
  { folder: `${BUILT_IN}hearth-demo-chat`, file: "model_q4.onnx", tolerance: 1e-4 },
  { folder: `${BUILT_IN}hearth-demo-chat`, file: "model_q4f16.onnx", tolerance: 0.08 },
  { folder: `${SHARED}stories260k-llama`, file: "model.onnx", tolerance: 1e-4 },
  { folder: `${SHARED}stories260k-llama`, file: "model_fp16.onnx", tolerance: 0.03 },
  { folder: `${SHARED}chat-gptneo-3m`, file: "model.onnx", tolerance: 1e-4 },
  { folder: `${SHARED}chat-gptneo-3m`, file: "model_q4.onnx", tolerance: 1e-4 },
];

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

/** Reads the golden conversations. */
function readConversations(folder: string): Conversation[] {
  const golden = JSON.parse(Deno.readTextFileSync(`${folder}/golden.json`));
  const all: Conversation[] = golden.conversations
    // deno-lint-ignore no-explicit-any
    ? golden.conversations.map((each: any) => ({
      prompt: each.prompt_ids,
      reply: [...each.reply_ids, each.finish_id],
      margin: each.min_top2_gap,
    }))
    // deno-lint-ignore no-explicit-any
    : golden.greedy.map((each: any) => ({
      prompt: each.prompt_ids,
      reply: each.generated_ids,
      margin: each.min_top1_margin,
    }));
  return all;
}

for (const { folder, file, tolerance } of CASES) {
  const model = folder.split("/").at(-1)!;
  const name = `${model}/${file}`;
  const path = `${folder}/onnx/${file}`;
  const ignore = !exists(path);
  const note = unlessThere(!ignore, `models/${model}`, "another architecture's weights");

  Deno.test({
    name: `cutGraph() of ${name}: two sequences packed give the whole graph's logits${note}`,
    ignore,
    fn: async () => {
      await using whole = await WholeGraph.open(await Deno.readFile(path));
      await using cut = await CutRunner.openFile(path);
      const [first, second] = readConversations(folder).map(({ prompt, reply }) =>
        [...prompt, ...reply].slice(0, 24)
      ) as [number[], number[]];
      const wanted = [...await whole.run([first]), ...await whole.run([second])];
      const sequences = [new TestSequence(), new TestSequence()] as const;
      const early = await cut.step(
        [{ sequence: sequences[0], tokens: first.slice(0, -2) }, {
          sequence: sequences[1],
          tokens: second.slice(0, 1),
        }],
        Array.from({ length: first.length - 1 }, (_, i) => i),
      );
      const late = await cut.step(
        [{ sequence: sequences[1], tokens: second.slice(1) }, {
          sequence: sequences[0],
          tokens: first.slice(-2),
        }],
        Array.from({ length: second.length + 1 }, (_, i) => i),
      );
      const got = [
        ...early.slice(0, -1),
        ...late.slice(second.length - 1),
        early.at(-1)!,
        ...late.slice(0, second.length - 1),
      ];
      const offs = got.map((row, i) => distance(row, wanted[i]!));
      assert.equal(offs.length, wanted.length);
      assert.ok(Math.max(...offs) <= tolerance, `off by ${Math.max(...offs)}`);
    },
  });

  Deno.test({
    name: `cutGraph() of ${name}: greedy tokens are the golden ones${note}`,
    ignore,
    fn: async () => {
      await using cut = await CutRunner.openFile(path);
      const short = readConversations(folder).filter(({ reply }) => reply.length <= 80).slice(0, 3);
      for (const { prompt, reply, margin } of short) {
        assert.ok(
          margin > 2 * tolerance,
          `the golden's margin ${margin} is too small to prove anything`,
        );
        assert.deepEqual(await cut.generate(prompt, reply.length), reply);
      }
    },
  });
}

Deno.test("cutGraph() of hearth-demo-chat: the last segment computes only the requested rows", async () => {
  const path = `${BUILT_IN}hearth-demo-chat/onnx/model.onnx`;
  await using cut = await CutRunner.openFile(path);
  const sequence = new TestSequence();
  const tokens = Array.from({ length: 40 }, (_, i) => i + 100);
  const [all] = [await cut.step([{ sequence, tokens }], tokens.map((_, i) => i))];
  const [one] = await cut.step([{ sequence: new TestSequence(), tokens }], [17]);
  assert.equal(argmax(one!), argmax(all[17]!));
  assert.ok(distance(one!, all[17]!) < 1e-5);
  const last = cut.cut.segments.at(-1)!;
  assert.deepEqual(last.outputs.map(({ shape }) => shape), [[1, "rows", 2048]]);
});
