/**
 * Finds the frames of MPEG audio, layers I to III (ISO/IEC 11172-3 and 13818-3, and the unofficial MPEG 2.5).
 *
 * @module
 */

/** A frame's header, decoded. */
export interface MpegFrame {
  /** The whole frame, header included. */
  readonly numBytes: number;
  readonly sampleRateHz: number;
  /** Equal for frames that can belong to one stream: version, layer and sample rate. */
  readonly kind: number;
  /** From the frame's beginning to a layer III frame's data, where a `Xing` header may be. */
  readonly dataOffset: number;
}

/** Consecutive frames needed to detect MPEG audio. */
const FRAMES_TO_BELIEVE = 3;
const SYNC_BYTE = 0xff;
const KIND_MASK = 0x1e0c00;
const HEADER_BYTES = 4;
/** In kbit/s, by bitrate index from 1 on: version 1 layers I, II and III, then later versions' I and the rest. */
const BITRATES = [
  [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
] as const;
const SAMPLE_RATES_HZ = [44_100, 48_000, 32_000] as const;

/** The frame whose header is at `at`, or `undefined` if there is none. */
export function parseMpegFrame(file: Uint8Array, at: number): MpegFrame | undefined {
  if (file[at] !== SYNC_BYTE || at + HEADER_BYTES > file.length) return undefined;
  const header = file[at]! << 24 | file[at + 1]! << 16 | file[at + 2]! << 8 | file[at + 3]!;
  const version = header >>> 19 & 3;
  const layer = 4 - (header >>> 17 & 3);
  const rateIndex = header >>> 10 & 3;
  const bitrateIndex = header >>> 12 & 15;
  if ((header >>> 21 & 0x7ff) !== 0x7ff || version === 1 || layer === 4) return undefined;
  const isFirst = version === 3;
  const bitrates = BITRATES[isFirst ? layer - 1 : layer === 1 ? 3 : 4]!;
  const kbits = bitrates[bitrateIndex - 1];
  const baseRate = SAMPLE_RATES_HZ[rateIndex];
  // Without a bitrate a frame's length is unknown; no encoder writes such files.
  if (kbits === undefined || baseRate === undefined) return undefined;
  const sampleRateHz = isFirst ? baseRate : version === 2 ? baseRate / 2 : baseRate / 4;
  const padding = header >>> 9 & 1;
  const slotBytes = layer === 1 ? 4 : 1;
  const slotsPerBit = layer === 1 ? 12 : layer === 3 && !isFirst ? 72 : 144;
  const isMono = (header >>> 6 & 3) === 3;
  const sideBytes = isFirst ? (isMono ? 17 : 32) : isMono ? 9 : 17;
  return {
    numBytes: (Math.floor(slotsPerBit * kbits * 1000 / sampleRateHz) + padding) * slotBytes,
    sampleRateHz,
    kind: header & KIND_MASK,
    dataOffset: HEADER_BYTES + sideBytes,
  };
}

/** The first offset from `at` on, within `maxBytes`, where several frames of one kind follow each other. */
export function findMpegFrames(
  file: Uint8Array,
  at: number,
  maxBytes: number,
): number | undefined {
  for (
    let start = file.indexOf(SYNC_BYTE, at);
    start >= 0 && start < at + maxBytes;
    start = file.indexOf(SYNC_BYTE, start + 1)
  ) {
    if (beginsStream(file, start)) return start;
  }
  return undefined;
}

function beginsStream(file: Uint8Array, start: number): boolean {
  const kind = parseMpegFrame(file, start)?.kind;
  let at = start;
  for (let i = 0; i < FRAMES_TO_BELIEVE; i++) {
    const frame = parseMpegFrame(file, at);
    if (frame === undefined || frame.kind !== kind) return false;
    at += frame.numBytes;
    // A file may be shorter than that.
    if (at === file.length) return true;
  }
  return true;
}
