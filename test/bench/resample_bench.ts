/**
 * Measures the cost of decoding audio files and of resampling them to 16 kHz, in processor time of this thread per
 * second of sound, and how much memory the longest possible file takes.
 *
 *     deno run -A test/bench/resample_bench.ts [rounds]
 *
 * @module
 */
import process from "node:process";
import { decodeAudio } from "../../src/media/audio.ts";
import { AudioResampler } from "../../src/media/sound_rate.ts";
import { makeWav, RATE_HZ, readFixture, SPEECH_FILES } from "../fixtures/audio/audio_files.ts";
import { median } from "./report.ts";

const DEFAULT_ROUNDS = 7;
const SECONDS = 20;
const PIECE = 32_768;
const MAX_FILE_BYTES = 100 << 20;
const MIB = 1 << 20;

async function measureCpu(rounds: number, run: () => Promise<void> | void): Promise<number> {
  const times: number[] = [];
  for (let round = -1; round < rounds; round++) {
    const before = process.cpuUsage();
    await run();
    if (round >= 0) times.push(process.cpuUsage(before).user / 1000);
  }
  return median(times);
}

function resample(rateHz: number): void {
  const sound = new Float32Array(rateHz * SECONDS).fill(0.3);
  const resampler = new AudioResampler(rateHz, RATE_HZ);
  for (let at = 0; at < sound.length; at += PIECE) resampler.push(sound.subarray(at, at + PIECE));
  resampler.flush();
}

async function countSamples(file: Uint8Array<ArrayBuffer>, onPiece = () => {}): Promise<number> {
  let count = 0;
  for await (const { length } of decodeAudio(file, { sampleRateHz: RATE_HZ })) {
    count += length;
    onPiece();
  }
  return count;
}

if (import.meta.main) {
  const rounds = Number(Deno.args[0] ?? DEFAULT_ROUNDS);
  const lines = ["| to 16 kHz, median | ms per second of sound |", "| --- | --- |"];
  for (const rate of [8_000, 22_050, 44_100, 48_000, 96_000]) {
    const ms = await measureCpu(rounds, () => resample(rate));
    lines.push(`| ${rate} Hz, resampled | ${(ms / SECONDS).toFixed(2)} |`);
  }
  for (const name of SPEECH_FILES) {
    const file = readFixture(name);
    const seconds = await countSamples(file) / RATE_HZ;
    const ms = await measureCpu(rounds, async () => {
      await countSamples(file);
    });
    lines.push(`| ${name}, decoded | ${(ms / seconds).toFixed(2)} |`);
  }
  const file = makeWav(new Int8Array(MAX_FILE_BYTES), { sampleRateHz: 22_050, bits: 8 });
  const before = process.memoryUsage().rss;
  let peak = before;
  const count = await countSamples(file, () => {
    peak = Math.max(peak, process.memoryUsage().rss);
  });
  lines.push(
    "",
    `${(count / RATE_HZ / 3600).toFixed(2)} hours in a file of 100 MiB took ` +
      `${((peak - before) / MIB).toFixed(0)} MiB of memory in addition to the file.`,
  );
  // deno-lint-ignore no-console -- its purpose
  console.log(lines.join("\n"));
}
