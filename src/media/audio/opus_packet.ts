/**
 * The framing of Opus packets (RFC 6716, section 3).
 *
 * @module
 */

/** Opus counts time at this rate, and is decoded at it. */
export const OPUS_RATE_HZ = 48_000;

const MAX_FRAME_BYTES = 1275;
/** 120 ms. */
const MAX_PACKET_SAMPLES = 5760;
/** Frame lengths from here on take two bytes. */
const FIRST_LONG_LENGTH = 252;

/** Duration of a packet in samples; 0 for an invalid one. */
export function countOpusSamples(packet: Uint8Array): number {
  const toc = packet[0];
  if (toc === undefined || !hasValidFrames(packet)) return 0;
  const samples = countFrames(packet) * frameMilliseconds(toc >>> 3) * OPUS_RATE_HZ / 1000;
  return samples <= MAX_PACKET_SAMPLES ? samples : 0;
}

function frameMilliseconds(config: number): number {
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

/** Whether the lengths of a packet's frames add up, as section 3.4 requires. */
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

/** A packet with a count of frames, and perhaps padding. */
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

/** Whether `count` frames, all but the last with a length in front, fit into the packet. */
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
