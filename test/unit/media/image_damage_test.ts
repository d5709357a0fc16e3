/** Images that are damaged, truncated, too large, or malicious. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { fileURLToPath } from "node:url";
import { deflateSync } from "node:zlib";
import { HearthError } from "../../../src/base/errors.ts";
import { decodeImage, type DecodeImageOptions, readImageHeader } from "../../../src/media/image.ts";
import {
  gifFrame,
  greyJpeg,
  pngChunk,
  pngFile,
  tiffFile,
  zeros,
} from "../../fixtures/images/image_writer.ts";
import { imageFile, IMAGES } from "../../fixtures/images/images.ts";

async function assertRefused(
  file: Uint8Array,
  message: RegExp,
  options?: DecodeImageOptions,
): Promise<void> {
  await assert.rejects(decodeImage(file, options), (error) => {
    assert.ok(error instanceof HearthError, String(error));
    assert.equal(error.kind, "invalid_media");
    assert.match(error.message, message);
    return true;
  });
}

/** The same numbers in every run (Park and Miller 1988). */
function* randomNumbers(seed: number): Generator<number, never> {
  for (let state = seed;; yield state / 2147483647) state = state * 48271 % 2147483647;
}

const DAMAGES: Readonly<Record<string, (file: Uint8Array, random: () => number) => Uint8Array>> = {
  "cut off": (file, random) => file.subarray(0, Math.floor(random() * file.length)),
  "with a bit flipped": (file, random) => {
    file[Math.floor(random() * file.length)]! ^= 1 << Math.floor(random() * 8);
    return file;
  },
  "with ten bytes changed": (file, random) => {
    for (let i = 0; i < 10; i++) file[Math.floor(random() * file.length)] = random() * 256;
    return file;
  },
  "with a hole": (file, random) => {
    const start = Math.floor(random() * file.length);
    return file.fill(random() < 0.5 ? 0 : 255, start, start + 20);
  },
  "with a large number in its header": (file, random) => {
    const at = Math.floor(random() * Math.min(80, file.length - 4));
    return file.fill(255, at, at + 2 + Math.floor(random() * 3));
  },
};

for (const [damage, apply] of Object.entries(DAMAGES)) {
  Deno.test(`decodeImage() decodes a file ${damage}, or refuses it`, async () => {
    const numbers = randomNumbers(17);
    const random = () => numbers.next().value;
    let numRefused = 0;
    for (let round = 0; round < 3; round++) {
      for (const { name, file } of IMAGES) {
        try {
          const { width, height, channels, data } = await decodeImage(
            apply(file.slice(), random),
            { maxPixels: 1e6 },
          );
          assert.equal(data.length, width * height * channels, name);
        } catch (error) {
          assert.ok(
            error instanceof HearthError && error.kind === "invalid_media",
            `${name}: ${error}`,
          );
          assert.match(error.message, /^The .+\.$/);
          numRefused++;
        }
      }
    }
    assert.ok(numRefused > 10);
  });
}

Deno.test("decodeImage() refuses every truncated file, unless only data after the image is missing", async () => {
  for (
    const name of [
      "png of Pillow",
      "jpeg progressive",
      "jpeg grey",
      "webp lossy",
      "gif",
      "bmp 24",
      "tiff raw",
    ]
  ) {
    const file = imageFile(name);
    for (let length = 0; length < file.length * 0.8; length += 7) {
      await assertRefused(file.subarray(0, length), /./);
    }
  }
});

Deno.test("decodeImage() decodes other images while damaged ones break the decoder, and afterwards", async () => {
  const names = [
    "jpeg progressive",
    "webp lossy",
    "webp lossless with alpha",
    "jpeg CMYK",
    "png of Pillow",
  ];
  const goods = IMAGES.filter(({ name }) => names.includes(name));
  const work = Array.from({ length: 40 }, async (_, i) => {
    const { file, pixels, maxDifference } = goods[i % goods.length]!;
    if (i % 3 === 0) return await decodeImage(file.subarray(0, file.length / 2)).catch(() => {});
    const { data } = await decodeImage(file);
    assert.ok(data.every((level, at) => Math.abs(level - pixels[at]!) <= maxDifference));
  });
  await Promise.all(work);
});

Deno.test("decodeImage() recognizes a format by its content and lists the supported ones", async () => {
  const formats = IMAGES.map(({ file }) => readImageHeader(file).format.name);
  assert.deepEqual(
    new Set(formats),
    new Set(["PNG", "BMP", "TIFF", "JPEG", "WebP", "GIF", "AVIF", "HEIC", "DIB"]),
  );
  await assertRefused(Buffer.from("a photograph"), /; one of JPEG, PNG, WebP, .* is expected/);
  await assertRefused(Buffer.from("BMW owners' club, minutes of 2024"), /; one of .* is expected/);
  await assertRefused(new Uint8Array(), /is empty/);
  await assertRefused(Buffer.from("<svg></svg>"), /seems to be SVG/);
  const svg =
    '\ufeff<?xml version="1.0"?>\n<!-- A drawing. -->\n<svg xmlns="http://www.w3.org/2000/svg"/>';
  await assertRefused(Buffer.from(svg), /seems to be SVG/);
  await assertRefused(
    Buffer.from("\n<!DOCTYPE html>\n<html><svg></svg></html>"),
    /seems to be HTML/,
  );
  const sequence = Buffer.from("\0\0\0\x18ftypmsf1\0\0\0\0msf1hevc", "latin1");
  await assertRefused(sequence, /seems to be a HEIF sequence, which is not supported/);
  await assertRefused(Buffer.from("\0\0\x01\0\x01\0\x10\x10", "latin1"), /seems to be an icon/);
});

Deno.test("decodeImage() names unsupported formats", async () => {
  // The first bytes of files that Pillow, ImageMagick and netpbm wrote.
  const beginnings: Readonly<Record<string, string>> = {
    "TGA": "\0\0\x02\0\0\0\0\0\0\0\0\0\x08\0\x08\0\x18\x20" + "\0".repeat(192),
    "QOI": "qoif\0\0\0\x08\0\0\0\x08\x03\0",
    "OpenEXR": "v/1\x01\x02\0\0\0channels\0chlist\0",
    "PCX": "\n\x05\x01\x08\0\0\0\0\x07\0\x07\0" + "\0".repeat(200),
    "ICNS": "icns\0\0\x01\0ic07",
    "JPEG 2000 stream": "\xff\x4f\xff\x51\0\x2f\0\0",
    "JPEG XL": "\xff\x0a\xfa\x1f",
    "Netpbm": "P6 8 8 255\n",
    "SGI": "\x01\xda\0\x02\0\x03",
    "IM": "Image type: RGB image\r\nName: ",
    "DPX": "SDPX\0\0\x08\0V1.0",
    "JNG": "\x8bJNG\r\n\x1a\n",
    "DICOM": "\0".repeat(128) + "DICM",
  };
  for (const [name, text] of Object.entries(beginnings)) {
    await assertRefused(Buffer.from(text, "latin1"), new RegExp(`seems to be .*${name}`));
  }
});

Deno.test("decodeImage() refuses HEIC images that are larger than the file declares", async () => {
  const file = imageFile("heic turned 1");
  const type = Buffer.from(file).indexOf("ispe");
  new DataView(file.buffer).setUint32(type + 8, 8);
  new DataView(file.buffer).setUint32(type + 12, 8);
  await assertRefused(file, /has pictures of 96 × 64 pixels, which is more than its header says/);
});

Deno.test("decodeImage() refuses an extremely long strip, whose resizing would take minutes", async () => {
  const length = 4_000_000;
  await assertRefused(pngFile(length, 1, [zeros(length + 1)]), /4000000 × 1 pixels; a side may/);
  await assertRefused(pngFile(1, length, [zeros(2 * length)]), /1 × 4000000 pixels; a side may/);
  const longest = await decodeImage(pngFile(65_535, 1, [zeros(65_536)]));
  assert.equal(longest.width, 65_535);
});

Deno.test("decodeImage() refuses an image whose header exceeds the limit, and names its size", async () => {
  const limit = /60000 × 50000 pixels, 3,000 megapixels; at most 64 are/;
  await assertRefused(pngFile(60_000, 50_000, []), limit);
  await assertRefused(greyJpeg(9, 7), /9 × 7 pixels/, { maxPixels: 62 });
  await assertRefused(gifFrame([1, 1], [0, 0, 65_535, 65_535]), /65535 × 65535/);
  await assertRefused(tiffFile({ 256: [1e6], 257: [1e6] }), /1000000 × 1000000/);
  const one = imageFile("png of Pillow");
  await assertRefused(one, /13 × 10 pixels/, { maxPixels: 129 });
  assert.equal((await decodeImage(one, { maxPixels: 130 })).width, 13);
});

Deno.test("decodeImage() refuses files that contain more or less than they declare", async () => {
  await assertRefused(pngFile(8, 8, [zeros(1e8)]), /damaged or cut off/);
  await assertRefused(pngFile(8, 8, [zeros(71)]), /fewer pixels/);
  await assertRefused(pngFile(8000, 8000, [zeros(71)]), /cut off, or its header/);
  const tags = { 256: [8], 257: [8], 258: [8], 259: [8], 262: [1], 273: [0], 278: [8], 279: [0] };
  const strip = deflateSync(new Uint8Array(1e8));
  const offset = tiffFile(tags).length;
  await assertRefused(
    tiffFile({ ...tags, 273: [offset], 279: [strip.length] }, strip),
    /damaged or cut off/,
  );
  assert.equal((await decodeImage(pngFile(8, 8, [zeros(72)]))).width, 8);
});

Deno.test("decodeImage() names unsupported kinds of files", async () => {
  const cmyk = Buffer.from(imageFile("jpeg CMYK"));
  cmyk.write("Other", cmyk.indexOf("Adobe"));
  await assertRefused(cmyk, /four colour components, and no Adobe segment/);
  const tags = { 256: [8], 257: [8], 258: [1], 273: [8], 279: [8] };
  await assertRefused(
    tiffFile({ ...tags, 259: [34712] }),
    /compressed as JPEG 2000\. LZW, .* can be/,
  );
  await assertRefused(
    tiffFile({ ...tags, 259: [34925] }),
    /compressed as LZMA\. LZW, .* can be read/,
  );
  await assertRefused(
    tiffFile({ ...tags, 258: [32], 339: [3] }),
    /pixels are floating-point numbers of 32 bits, 1 for each pixel\. Up to 5 unsigned .* can be read/,
  );
  await assertRefused(
    tiffFile({ ...tags, 258: [8], 259: [7], 262: [5], 277: [4] }),
    /compressed as JPEG with 4 samples of 8 bits .* With JPEG, 1 or 3 of 8 bits can be read/,
  );
  await assertRefused(tiffFile({ ...tags, 262: [8] }, new Uint8Array(64)), /photometric kind 8/);
  const many = { ...tags, 258: [8], 277: [3], 262: [6], 284: [2], 530: [2, 2] };
  await assertRefused(tiffFile(many, new Uint8Array(192)), /2 × 2 pixels of YCbCr share/);
  const jpeg = greyJpeg(8, 8);
  const frameAt = jpeg.findIndex((byte, i) => byte === 0xff && jpeg[i + 1] === 0xc0) + 1;
  for (const [marker, message] of [[0xc3, /is lossless/], [0xca, /has arithmetic/]] as const) {
    await assertRefused(jpeg.with(frameAt, marker), message);
  }
  await assertRefused(jpeg.with(frameAt + 3, 12), /cannot be read: it has samples of 12 bits/);
});

Deno.test("decodeImage() refuses files designed to be slow", async () => {
  await assertRefused(greyJpeg(8, 8, 101), /101 passes/);
  await assertRefused(greyJpeg(16_000, 4_000, 40), /40 passes .* at most 31/);
  const chunks = Array.from({ length: 70_000 }, () => pngChunk("tEXt", new Uint8Array()));
  await assertRefused(pngFile(8, 8, chunks), /more than 65536 chunks/);
  await assertRefused(
    tiffFile({ 256: [8000], 257: [8000], 322: [1], 323: [1], 324: [0], 325: [0] }),
    /64000000 tiles/,
  );
});

Deno.test("decodeImage() returns the memory of large images, and a profile of 100 MB takes none", async () => {
  const script = fileURLToPath(new URL("../../fixtures/images/image_memory.ts", import.meta.url));
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--v8-flags=--expose-gc", script],
  }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  const { grownMb, profileMb } = JSON.parse(new TextDecoder().decode(stdout));
  // The pixels of two such images are 72 MB, and a decoder needs the same amount again for each.
  assert.ok(grownMb < 60, `${grownMb} MB more after than before`);
  assert.ok(profileMb < 40, `${profileMb} MB more at the peak`);
});

Deno.test("decodeImage() reads large images", async () => {
  const { width, height, channels, data } = await decodeImage(greyJpeg(8000, 6000));
  assert.deepEqual([width, height, channels], [8000, 6000, 3]);
  assert.equal(data.length, 8000 * 6000 * 3);
  assert.deepEqual([...data.subarray(-3)], [128, 128, 128]);
});

Deno.test("decodeImage() reads JPEG files without the end marker, and distinguishes them from truncated ones", async () => {
  for (
    const name of ["jpeg quality 95 subsampling 2", "jpeg quality 30 subsampling 0", "jpeg grey"]
  ) {
    const file = imageFile(name);
    const whole = await decodeImage(file);
    assert.deepEqual(await decodeImage(file.slice(0, -2)), whole, name);
    assert.deepEqual(await decodeImage(file.slice(0, -1)), whole, name);
    for (const missing of [20, 40]) await assertRefused(file.slice(0, -missing), /is cut off/);
  }
});
