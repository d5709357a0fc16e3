/**
 * The server that one would write to serve embeddings with transformers.js alone: one process, one request at a time,
 * and an unchanged ONNX Runtime. The benchmark over HTTP compares Hearth with it.
 *
 *     deno run -A transformers_server.ts <folder of model folders> <model> <cpu|webgpu>
 *
 * @module
 */
import { openDevice } from "../../src/gpu/device.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";

const [modelsFolder, model, device] = Deno.args as [string, string, string];
const gpu = device === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
const transformers = await loadWithModels({ openModel: peerSessions(gpu?.device), modelsFolder });
const pipeline = await transformers.pipeline("feature-extraction", model, {
  device: "auto",
  dtype: "fp32",
});

let last: Promise<unknown> = Promise.resolve();

const onListen = ({ port }: { port: number }) =>
  void Deno.stdout.writeSync(new TextEncoder().encode(`${port}\n`));

Deno.serve({ port: 0, onListen }, async (request) => {
  const { input } = await request.json();
  const answer = last.then(() => pipeline(input, { pooling: "mean", normalize: true }));
  last = answer.catch(() => {});
  const rows = (await answer).tolist() as number[][];
  return Response.json({
    object: "list",
    data: rows.map((embedding, index) => ({ object: "embedding", index, embedding })),
  });
});
