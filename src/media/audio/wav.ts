/**
 * Reads WAV files (RIFF/WAVE): integer PCM of 8 to 32 bits, floating point, and the A-law and mu-law of telephony (ITU-T
 * G.711), `WAVE_FORMAT_EXTENSIBLE` too.
 *
 * @module
 */
import { type PcmFormat, readPcm, type SampleCoding } from "./pcm.ts";
import { invalidAudio, type Sound } from "./sound.ts";

const FORMAT_PCM = 1;
const FORMAT_FLOAT = 3;
const FORMAT_A_LAW = 6;
const FORMAT_MU_LAW = 7;
const FORMAT_EXTENSIBLE = 0xfffe;
/** Encodings that are not read and that recorders are known to write. */
const UNREAD: Readonly<Record<number, string>> = {
  0x02: "Microsoft ADPCM",
  0x11: "IMA ADPCM",
  0x31: "GSM 6.10",
  0x50: "MPEG audio",
  0x55: "MP3",
};
/** Programs that write to a pipe cannot know the size and leave 0, one of these, or the next multiple of a frame. */
const UNKNOWN_SIZE = 0x7fff_f000;
/** What stands for a size of 64 bits (EBU Tech 3306), which is in the chunk `ds64`. */
const LONG_SIZE = 0xffff_ffff;
/** From the content of `ds64` to the size of the data. */
const LONG_SIZE_AT = 8;
const CHUNK_HEADER_BYTES = 8;

const KINDS: Readonly<Record<number, SampleCoding["kind"]>> = {
  [FORMAT_PCM]: "signed",
  [FORMAT_FLOAT]: "float",
  [FORMAT_A_LAW]: "A-law",
  [FORMAT_MU_LAW]: "mu-law",
};

/** Whether a file begins as a WAV file does, or as its 64-bit forms. */
export function isWav(file: Uint8Array): boolean {
  return ["RIFF", "RF64", "BW64"].includes(tagAt(file, 0)) && tagAt(file, 8) === "WAVE";
}

/**
 * Decodes a WAV file.
 *
 * @throws {HearthError} `invalid_media` when a header is inconsistent, the file is truncated or the encoding is not
 * supported.
 */
export async function* readWav(file: Uint8Array<ArrayBuffer>): AsyncGenerator<Sound, void> {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let format: PcmFormat | undefined;
  let longSize = LONG_SIZE;
  for (let at = 12; at + CHUNK_HEADER_BYTES <= file.length;) {
    const tag = tagAt(file, at);
    const size = view.getUint32(at + 4, true);
    const start = at + CHUNK_HEADER_BYTES;
    if (tag === "ds64" && start + LONG_SIZE_AT + 8 <= file.length) {
      longSize = Number(view.getBigUint64(start + LONG_SIZE_AT, true));
    }
    if (tag === "fmt ") format = readFormat(view, start, size);
    if (tag === "data") {
      if (format === undefined) throw invalidAudio("The WAV file has data before its format.");
      const end = findEnd(file, start, size === LONG_SIZE ? longSize : size);
      yield* readPcm(file.subarray(start, end), format);
      return;
    }
    // Chunks are padded to an even size.
    at = start + size + size % 2;
  }
  throw invalidAudio("The WAV file ends before its data.");
}

function tagAt(file: Uint8Array, at: number): string {
  return String.fromCharCode(...file.subarray(at, at + 4));
}

function readFormat(view: DataView, start: number, size: number): PcmFormat {
  if (size < 16 || start + size > view.byteLength) {
    throw invalidAudio("The WAV file's format is cut short.");
  }
  const encoding = view.getUint16(start, true);
  const bitsPerSample = view.getUint16(start + 14, true);
  // The actual encoding is in the first bytes of the extension's sub-format.
  const isExtended = encoding === FORMAT_EXTENSIBLE && size >= 26;
  const actual = isExtended ? view.getUint16(start + 24, true) : encoding;
  const bytesPerSample = Math.ceil(bitsPerSample / 8);
  const kind = actual === FORMAT_PCM && bytesPerSample === 1 ? "unsigned" : KINDS[actual];
  const name = UNREAD[actual] === undefined ? "" : ` (${UNREAD[actual]})`;
  return {
    container: "WAV",
    numChannels: view.getUint16(start + 2, true),
    sampleRateHz: view.getUint32(start + 4, true),
    bytesPerFrame: view.getUint16(start + 12, true),
    coding: kind && { kind, bytes: bytesPerSample, isLittleEndian: true },
    encoding: `${actual}${name} with ${bitsPerSample} bits`,
  };
}

function findEnd(file: Uint8Array, start: number, size: number): number {
  const present = file.length - start;
  if (size > 0 && size <= present) return start + size;
  if (size === 0 || size >= UNKNOWN_SIZE) return file.length;
  throw invalidAudio(
    `The WAV file was cut: its header promises ${size} bytes of sound, and ${present} are there.`,
  );
}
