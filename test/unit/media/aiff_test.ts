import assert from "node:assert/strict";
import { assertClose } from "../../fixtures/engine/compare_values.ts";
import { decodeWhole, RATE_HZ } from "../../fixtures/audio/audio_files.ts";

const TONE = Float64Array.from({ length: 3001 }, (_, i) => 0.9 * Math.sin(i * 0.05));
/** 16 kHz in 80 bits: 0.9765625 times 2^14. */
const RATE = [0x40, 0x0c, 0xfa, 0, 0, 0, 0, 0, 0, 0];

interface AiffOptions {
  readonly bits: number;
  /** AIFF-C's name of the encoding; AIFF if absent. */
  readonly name?: string;
  /** The size of the sound in the header; the correct one if absent. */
  readonly claimedBytes?: number;
  readonly isFormatLast?: boolean;
}

function makeAiff(
  samples: ArrayLike<number>,
  { bits, name, claimedBytes, isFormatLast = false }: AiffOptions,
): Uint8Array<ArrayBuffer> {
  const bytes = bits / 8;
  const content = new DataView(new ArrayBuffer(8 + samples.length * bytes));
  for (let i = 0; i < samples.length; i++) {
    const at = 8 + i * bytes;
    if (name === "fl32") content.setFloat32(at, samples[i]!);
    else if (name === "fl64") content.setFloat64(at, samples[i]!);
    else {
      const value = Math.round(samples[i]! * 2 ** (bits - 1)) + (name === "raw " ? 128 : 0);
      for (let byte = 0; byte < bytes; byte++) {
        const place = name === "sowt" ? byte : bytes - 1 - byte;
        content.setUint8(at + byte, Math.floor(value / 256 ** place) & 255);
      }
    }
  }
  const sound = chunk("SSND", new Uint8Array(content.buffer), claimedBytes);
  const format = chunk("COMM", [
    ...[0, 1],
    ...[0, 0, samples.length >> 8, samples.length & 255],
    ...[0, bits],
    ...RATE,
    ...(name === undefined ? [] : [...text(name), 0, 0]),
  ]);
  const chunks = isFormatLast ? [...sound, ...format] : [...format, ...sound];
  return chunk("FORM", [...text(name === undefined ? "AIFF" : "AIFC"), ...chunks]);
}

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

function chunk(tag: string, content: ArrayLike<number>, size = content.length) {
  const bytes = Array.from(content);
  const head = [...text(tag), size >>> 24, size >>> 16 & 255, size >>> 8 & 255, size & 255];
  return new Uint8Array([...head, ...bytes, ...(bytes.length % 2 ? [0] : [])]);
}

const ENCODINGS: readonly AiffOptions[] = [
  { bits: 8 },
  { bits: 16 },
  { bits: 24 },
  { bits: 32 },
  { bits: 16, name: "NONE" },
  { bits: 16, name: "sowt" },
  { bits: 24, name: "in24" },
  { bits: 8, name: "raw " },
  { bits: 32, name: "fl32" },
  { bits: 64, name: "fl64" },
  { bits: 16, isFormatLast: true },
];

for (const options of ENCODINGS) {
  Deno.test(`readAiff() reads ${JSON.stringify(options)}`, async () => {
    const error = Math.max(2 ** -24, 2 ** -options.bits);
    assertClose(await decodeWhole(makeAiff(TONE, options)), TONE, { abs: error });
  });
}

Deno.test("readAiff() reads to the end if a pipe left the size unknown", async () => {
  for (const claimedBytes of [0, 8, 0x7f00_0008, 0xffff_ffff]) {
    assertClose(await decodeWhole(makeAiff(TONE, { bits: 16, claimedBytes })), TONE, {
      abs: 2 ** -16,
    });
  }
});

Deno.test("readAiff() refuses other encodings, files without sound and too many channels, and names what it saw", async () => {
  const refused = async (file: Uint8Array<ArrayBuffer>, message: RegExp) => {
    await assert.rejects(decodeWhole(file, RATE_HZ), { kind: "invalid_media", message });
  };
  await refused(makeAiff(TONE, { bits: 16, name: "QDMC" }), /sound is QDMC with 16 bits; PCM/);
  await refused(makeAiff([], { bits: 16 }), /no sound/);
  const spoilt = makeAiff(TONE, { bits: 16 });
  spoilt[21] = 9;
  await refused(spoilt, /9 channels; 1 to 8/);
});
