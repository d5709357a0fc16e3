/**
 * Decodes Opus packets (RFC 6716), from any container.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { ErrorBudget, type Sound } from "./sound.ts";

/** The identification header (RFC 7845, section 5.1). */
interface OpusHead {
  readonly numChannels: number;
  /** Samples at 48 kHz to skip (pre-skip). */
  readonly preSkip: number;
  /** Factor on all samples. */
  readonly gain: number;
  readonly numStreams: number;
  readonly numCoupled: number;
  /** u8 `[numChannels]`: the decoded channel for each output channel, 255 for silence. */
  readonly mapping: readonly number[];
}

const HEAD_BYTES = 19;
const MAX_CHANNELS = 8;
/** Size of the decoder's input buffer, per channel: 120 ms at 256 kbit/s. */
const MAX_PACKET_BYTES = 3840;
const PACKETS_PER_CHUNK = 32;

/** @throws {HearthError} `invalid_media` when a header is invalid. */
export function parseOpusHead(data: Uint8Array): OpusHead {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const numChannels = data[9] ?? 0;
  if (data.length < HEAD_BYTES || numChannels < 1 || numChannels > MAX_CHANNELS) {
    throw invalidMedia(
      `The Opus header is damaged, or has ${numChannels} channels; 1 to ${MAX_CHANNELS} are expected.`,
    );
  }
  const base = {
    numChannels,
    preSkip: view.getUint16(10, true),
    gain: 10 ** (view.getInt16(16, true) / 256 / 20),
  };
  const family = data[18];
  if (family === 0) {
    const mapping = numChannels === 1 ? [0] : [0, 1];
    if (numChannels > 2) {
      throw invalidMedia(`The Opus header has ${numChannels} channels, but no mapping for them.`);
    }
    return { ...base, numStreams: 1, numCoupled: numChannels - 1, mapping };
  }
  const numStreams = data[19] ?? 0;
  const numCoupled = data[20] ?? 0;
  const mapping = [...data.subarray(21, 21 + numChannels)];
  const isMapped = mapping.length === numChannels &&
    mapping.every((channel) => channel === 255 || channel < numStreams + numCoupled);
  if (!isMapped || numStreams < 1 || numCoupled > numStreams) {
    throw invalidMedia("The Opus header maps channels to streams that are not there.");
  }
  return { ...base, numStreams, numCoupled, mapping };
}

/**
 * Decodes packets. Invalid packets are skipped.
 *
 * @param maxSamples end of the sound, if the container gives it.
 */
export async function* decodeOpus(
  head: OpusHead,
  packets: Iterable<Uint8Array>,
  maxSamples = Infinity,
): AsyncGenerator<Sound, void> {
  const { OpusDecoder } = await import("opus-decoder");
  const { numChannels, preSkip, gain, numStreams, numCoupled, mapping } = head;
  const decoder = new OpusDecoder({
    channels: numChannels,
    preSkip,
    streamCount: numStreams,
    coupledStreamCount: numCoupled,
    channelMappingTable: [...mapping],
  });
  await decoder.ready;
  try {
    const budget = new ErrorBudget();
    let left = maxSamples;
    const whole = dropDamaged(packets, { maxBytes: MAX_PACKET_BYTES * numChannels, numStreams });
    for (const group of groupPackets(whole)) {
      const { channelData, errors } = decoder.decodeFrames(group);
      budget.spend(errors);
      const channels = channelData.map((samples) => scale(samples.subarray(0, left), gain));
      left -= channels[0]!.length;
      yield { channels, sampleRateHz: OPUS_RATE_HZ };
    }
  } finally {
    decoder.free();
  }
}

function* dropDamaged(
  packets: Iterable<Uint8Array>,
  { maxBytes, numStreams }: { readonly maxBytes: number; readonly numStreams: number },
): Generator<Uint8Array> {
  for (const packet of packets) {
    if (countOpusSamples(packet, numStreams) > 0 && packet.length <= maxBytes) yield packet;
  }
}

function* groupPackets(packets: Iterable<Uint8Array>): Generator<Uint8Array[]> {
  let group: Uint8Array[] = [];
  for (const packet of packets) {
    group.push(packet);
    if (group.length < PACKETS_PER_CHUNK) continue;
    yield group;
    group = [];
  }
  yield group;
}

function scale(samples: Float32Array, factor: number): Float32Array {
  return factor === 1 ? samples : samples.map((sample) => sample * factor);
}

/** Sample rate of decoded Opus, in which Opus also counts time. */
export const OPUS_RATE_HZ = 48_000;

const MAX_FRAME_BYTES = 1275;
/** Samples of the longest packet, which lasts 120 ms. */
const MAX_PACKET_SAMPLES = 5760;
/** Frame lengths of at least this value take two bytes. */
const FIRST_LONG_LENGTH = 252;

/**
 * Duration of a packet in samples; 0 if it is invalid.
 *
 * @param numStreams streams in the packet. If there are several, their lengths (appendix B) are not checked.
 */
export function countOpusSamples(packet: Uint8Array, numStreams = 1): number {
  const toc = packet[0];
  if (toc === undefined || numStreams === 1 && !hasValidFrames(packet)) return 0;
  const samples = countFrames(packet) * getFrameMilliseconds(toc >>> 3) * OPUS_RATE_HZ / 1000;
  return samples <= MAX_PACKET_SAMPLES ? samples : 0;
}

function getFrameMilliseconds(config: number): number {
  const isSilk = config < 12;
  const isHybrid = config < 16;
  if (isSilk) return [10, 20, 40, 60][config & 3]!;
  return isHybrid ? [10, 20][config & 1]! : [2.5, 5, 10, 20][config & 3]!;
}

function countFrames(packet: Uint8Array): number {
  const code = packet[0]! & 3;
  if (code === 3) return (packet[1] ?? 0) & 63;
  return code === 0 ? 1 : 2;
}

/** Whether the lengths of a packet's frames are consistent, as section 3.4 requires. */
function hasValidFrames(packet: Uint8Array): boolean {
  const size = packet.length - 1;
  switch (packet[0]! & 3) {
    case 0:
      return size <= MAX_FRAME_BYTES;
    case 1:
      return size % 2 === 0 && size / 2 <= MAX_FRAME_BYTES;
    case 2:
      return areValidLengths(packet, { at: 1, count: 2, padding: 0 });
    default:
      return hasValidMany(packet);
  }
}

/** Checks a packet that gives its number of frames, and may have padding. */
function hasValidMany(packet: Uint8Array): boolean {
  const flags = packet[1] ?? 0;
  const count = flags & 63;
  const isPadded = (flags & 0x40) !== 0;
  const isVariable = (flags & 0x80) !== 0;
  let at = 2;
  let padding = 0;
  if (isPadded) {
    let byte: number;
    do {
      byte = packet[at++] ?? 0;
      // 255 means 254 bytes and another length byte.
      padding += Math.min(byte, 254);
    } while (byte === 255);
  }
  if (isVariable) return count > 0 && areValidLengths(packet, { at, count, padding });
  const size = packet.length - padding - at;
  return count > 0 && size >= 0 && size % count === 0 && size / count <= MAX_FRAME_BYTES;
}

/** Whether `count` frames fit into the packet; all but the last have a length in front. */
function areValidLengths(
  packet: Uint8Array,
  { at, count, padding }: { at: number; count: number; padding: number },
): boolean {
  let used = at + padding;
  let next = at;
  for (let i = 1; i < count; i++) {
    const first = packet[next++] ?? 0;
    const length = first < FIRST_LONG_LENGTH ? first : first + 4 * (packet[next++] ?? 0);
    used += length;
  }
  const last = packet.length - used - (next - at);
  return last >= 0 && last <= MAX_FRAME_BYTES;
}
