import assert from "node:assert/strict";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { FRAME_SAMPLES, makeFlacSilence } from "../fixtures/audio/flac_silence.ts";
import { CLIP, CLIP_TEXT, readRecording } from "../fixtures/servers/speech_server.ts";
import { transcribeFile, withAsr } from "../fixtures/audio/transcribe.ts";

const NUM_CLIENTS = 2;
const NUM_EACH = 12;
const LONG_SECONDS = 120;

Deno.test("AsrModel finishes short recordings, one after the other, before an earlier long one", async () => {
  const numFrames = Math.ceil(LONG_SECONDS * 16_000 / FRAME_SAMPLES);
  const long = makeFlacSilence({ numFrames, sampleRateKhz: 16 });
  const short = await readRecording(CLIP.file);
  await withAsr({ backend: new CpuBackend() }, async (model) => {
    const ended: string[] = [];
    const ends = (name: string) => () => ended.push(name);
    const first = transcribeFile(model, long).then(ends("long"));
    const clients = Array.from({ length: NUM_CLIENTS }, async () => {
      for (let n = 0; n < NUM_EACH; n++) {
        const { text } = await transcribeFile(model, short);
        assert.equal(text, CLIP_TEXT);
      }
    });
    await Promise.all([first, ...clients.map((client) => client.then(ends("short")))]);
    assert.deepEqual(ended, ["short", "short", "long"]);
  });
});
