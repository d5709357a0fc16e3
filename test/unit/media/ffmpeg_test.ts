import assert from "node:assert/strict";
import { HearthError } from "../../../src/base/errors.ts";
import { decodeAudio } from "../../../src/media/audio.ts";
import { isFfmpeg } from "../../../src/media/ffmpeg.ts";
import { decodeWhole, readFixture } from "../../fixtures/audio/audio_files.ts";

const program = "ffmpeg";
const ignore = !await isFfmpeg(program);

async function encode(args: readonly string[]): Promise<Uint8Array<ArrayBuffer>> {
  const process = new Deno.Command(program, {
    args: ["-v", "error", "-i", "pipe:0", ...args, "pipe:1"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(readFixture("speech.wav"));
  await writer.close();
  return (await process.output()).stdout;
}

async function decode(file: Uint8Array<ArrayBuffer>): Promise<Float32Array> {
  const pieces = await Array.fromAsync(
    decodeAudio(file, { sampleRateHz: 16_000, ffmpeg: program }),
  );
  return Float32Array.from(pieces.flatMap((piece) => [...piece]));
}

function correlate(first: Float32Array, second: Float32Array): number {
  const product = (a: Float32Array, b: Float32Array) =>
    a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
  return product(first, second) / Math.sqrt(product(first, first) * product(second, second));
}

const FORMATS: Readonly<Record<string, readonly string[]>> = {
  "WavPack": ["-c:a", "wavpack", "-f", "wv"],
  "TTA": ["-c:a", "tta", "-f", "tta"],
  "AC-3": ["-c:a", "ac3", "-f", "ac3"],
  "AC-3 in Matroska": ["-c:a", "ac3", "-f", "matroska"],
};

for (const [name, args] of Object.entries(FORMATS)) {
  Deno.test({
    name: `decodeAudio() has ffmpeg convert ${name}, and without ffmpeg names the command`,
    ignore,
    fn: async () => {
      const file = await encode(args);
      const speech = await decodeWhole(readFixture("speech.wav"));
      const converted = await decode(file);
      // Lossy encoders insert some samples at the beginning.
      const best = Math.max(
        ...Array.from(
          { length: 2_100 },
          (_, delay) =>
            delay % 4 === 0 || delay < 64
              ? correlate(speech.subarray(0, 20_000), converted.subarray(delay))
              : 0,
        ),
      );
      assert.ok(best > 0.95, `${name}: ${best}`);
      await assert.rejects(decodeWhole(file), {
        kind: "invalid_media",
        message: new RegExp(
          `${name.split(" ")[0]}.* expected\\. A command that converts it: ffmpeg -i`,
          "s",
        ),
      });
    },
  });
}

Deno.test({
  name: "decodeAudio() passes on ffmpeg's error for a file without sound",
  ignore,
  fn: async () => {
    await assert.rejects(decode(new Uint8Array(10_000).fill(1)), {
      kind: "invalid_media",
      message: /ffmpeg finds no sound in the file: .*Invalid data/,
    });
    // A playlist that names another file: only the pipe is allowed.
    const playlist = new TextEncoder().encode("#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n");
    await assert.rejects(decode(playlist), { kind: "invalid_media" });
  },
});

Deno.test("decodeAudio() does not start ffmpeg for an aborted signal", async () => {
  const reason = new HearthError("inference_failed", "gone");
  const file = new Uint8Array(10_000).fill(1);
  const options = { sampleRateHz: 16_000, ffmpeg: "/nonexistent/ffmpeg" };
  const sound = decodeAudio(file, { ...options, signal: AbortSignal.abort(reason) });
  await assert.rejects(sound.next(), reason);
  await assert.rejects(decodeAudio(file, options).next(), /could not be started/);
});

Deno.test({
  name: "decodeAudio() ends ffmpeg when its signal is aborted, and rejects with the reason",
  ignore,
  fn: async () => {
    const file = await encode(["-af", "apad=whole_dur=600", ...FORMATS["WavPack"]!]);
    const reason = new HearthError("inference_failed", "gone");
    const abort = new AbortController();
    const options = { sampleRateHz: 16_000, ffmpeg: program, signal: abort.signal };
    let numSamples = 0;
    await assert.rejects(async () => {
      for await (const { length } of decodeAudio(file, options)) {
        numSamples += length;
        abort.abort(reason);
      }
    }, reason);
    // Of 9.6 million samples, those that were in pipes still arrive.
    assert.ok(numSamples < 1e6, `${numSamples} samples`);
  },
});

Deno.test("isFfmpeg() distinguishes ffmpeg from other programs", async () => {
  assert.equal(await isFfmpeg("/nonexistent/ffmpeg"), false);
  assert.equal(await isFfmpeg(Deno.execPath()), false);
});
