/**
 * Parses Ogg files, and makes pages for decoders that only take pages (RFC 3533).
 *
 * @module
 */
import { joinBytes } from "../../base/bytes.ts";

/** A page with a valid checksum. */
export interface OggPage {
  readonly serial: number;
  readonly sequence: number;
  /** Position at the end of the last packet that ends on this page, in the codec's own units; -1 if none does. */
  readonly granule: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
  /** Whether the page begins within a packet. */
  readonly isContinued: boolean;
  /** Lengths of the body's segments; a packet ends with its first segment of less than 255 bytes. */
  readonly lacing: Uint8Array;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** A packet of one logical stream, and the page it ends on. */
export interface OggPacket {
  readonly data: Uint8Array<ArrayBuffer>;
  readonly page: OggPage;
}

const CAPTURE = [0x4f, 0x67, 0x67, 0x53];
const VERSION_AT = 4;
const CHECKSUM_AT = 22;
const NUM_SEGMENTS_AT = 26;
const HEADER_BYTES = 27;
const IS_CONTINUED = 1;
const IS_FIRST = 2;
const IS_LAST = 4;
const FULL_SEGMENT_BYTES = 255;
const MAX_SEGMENTS = 255;
const MAX_CHECKS_PER_BYTE = 4;

/** Length of the longest packet that fits into one page. */
export const MAX_PAGED_BYTES = MAX_SEGMENTS * FULL_SEGMENT_BYTES - 1;

/** Whether a file has the signature of Ogg. */
export function isOgg(file: Uint8Array): boolean {
  return isCapture(file, 0);
}

/**
 * Yields the pages of a file in order. If the file ends within a page, the complete segments of that page come last.
 * Damaged data are skipped.
 */
export function* readOggPages(file: Uint8Array<ArrayBuffer>): Generator<OggPage> {
  const [letter] = CAPTURE as [number];
  let cutAt: number | undefined;
  // Bounds the work: false page headers could make each byte be checked thousands of times.
  let checksLeft = MAX_CHECKS_PER_BYTE * file.length;
  for (let at = file.indexOf(letter); at >= 0 && checksLeft > 0;) {
    const bytes = findPage(file, at);
    checksLeft -= bytes?.length ?? 0;
    const isPage = bytes !== undefined && isIntact(bytes);
    if (isPage) yield parsePage(bytes);
    if (isPage) cutAt = undefined;
    else if (bytes === undefined && isPageHead(file, at)) cutAt ??= at;
    at = file.indexOf(letter, at + (isPage ? bytes.length : 1));
  }
  if (cutAt !== undefined) yield parseCutPage(file.subarray(cutAt));
}

/** Yields the packets of one logical stream. Incomplete packets are skipped. */
export function* readOggPackets(pages: Iterable<OggPage>): Generator<OggPacket> {
  // Parts of an incomplete packet; absent if its beginning is lost.
  let parts: Uint8Array[] | undefined;
  let sequence: number | undefined;
  for (const page of pages) {
    if (!page.isContinued) parts = [];
    else if (page.sequence - 1 !== sequence) parts = undefined;
    sequence = page.sequence;
    let start = 0;
    let at = 0;
    for (const length of page.lacing) {
      at += length;
      if (length === FULL_SEGMENT_BYTES) continue;
      const part = page.body.subarray(start, at);
      if (parts !== undefined) {
        yield { data: parts.length > 0 ? joinBytes([...parts, part]) : part, page };
      }
      parts = [];
      start = at;
    }
    if (page.lacing.at(-1) === FULL_SEGMENT_BYTES) parts?.push(page.body.subarray(start));
    else parts = undefined;
  }
}

/**
 * Makes a page with one packet of at most {@linkcode MAX_PAGED_BYTES}. Page 0 is the first of its stream.
 *
 * @param options.granule position at the packet's end; 0 if absent.
 * @param options.serial number of the logical stream; 0 if absent.
 */
export function makeOggPage(
  packet: Uint8Array,
  sequence: number,
  options: { granule?: number; isLast?: boolean; serial?: number } = {},
): Uint8Array<ArrayBuffer> {
  const numSegments = Math.floor(packet.length / FULL_SEGMENT_BYTES) + 1;
  const page = new Uint8Array(HEADER_BYTES + numSegments + packet.length);
  const view = new DataView(page.buffer);
  page.set(CAPTURE);
  page[5] = (sequence === 0 ? IS_FIRST : 0) | (options.isLast ? IS_LAST : 0);
  view.setBigInt64(6, BigInt(options.granule ?? 0), true);
  view.setUint32(14, options.serial ?? 0, true);
  view.setUint32(18, sequence, true);
  page[NUM_SEGMENTS_AT] = numSegments;
  page.fill(FULL_SEGMENT_BYTES, HEADER_BYTES, HEADER_BYTES + numSegments - 1);
  page[HEADER_BYTES + numSegments - 1] = packet.length % FULL_SEGMENT_BYTES;
  page.set(packet, HEADER_BYTES + numSegments);
  view.setUint32(CHECKSUM_AT, computeChecksum(page), true);
  return page;
}

function isCapture(file: Uint8Array, at: number): boolean {
  return CAPTURE.every((byte, i) => file[at + i] === byte);
}

/** The bytes of the page at `at`, if it is complete. */
function findPage(file: Uint8Array<ArrayBuffer>, at: number): Uint8Array<ArrayBuffer> | undefined {
  if (!isCapture(file, at) || file[at + VERSION_AT] !== 0) return undefined;
  const bodyAt = HEADER_BYTES + (file[at + NUM_SEGMENTS_AT] ?? 0);
  const lacing = file.subarray(at + HEADER_BYTES, at + bodyAt);
  const numBytes = bodyAt + lacing.reduce((sum, length) => sum + length, 0);
  return at + numBytes <= file.length ? file.subarray(at, at + numBytes) : undefined;
}

/** Whether there is a whole page header. */
function isPageHead(file: Uint8Array, at: number): boolean {
  return isCapture(file, at) && file[at + VERSION_AT] === 0 &&
    at + HEADER_BYTES + (file[at + NUM_SEGMENTS_AT] ?? MAX_SEGMENTS) < file.length;
}

/** Parses a page whose end is missing. The result has only the complete segments, and no position. */
function parseCutPage(bytes: Uint8Array<ArrayBuffer>): OggPage {
  const page = parsePage(bytes);
  let numBytes = 0;
  const numSegments = page.lacing.findIndex((length) => (numBytes += length) > page.body.length);
  return { ...page, lacing: page.lacing.subarray(0, numSegments), granule: -1, isLast: false };
}

function isIntact(page: Uint8Array): boolean {
  const view = new DataView(page.buffer, page.byteOffset, HEADER_BYTES);
  return computeChecksum(page) === view.getUint32(CHECKSUM_AT, true);
}

function parsePage(bytes: Uint8Array<ArrayBuffer>): OggPage {
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_BYTES);
  const flags = view.getUint8(5);
  const bodyAt = HEADER_BYTES + view.getUint8(NUM_SEGMENTS_AT);
  return {
    serial: view.getUint32(14, true),
    sequence: view.getUint32(18, true),
    granule: Number(view.getBigInt64(6, true)),
    isFirst: (flags & IS_FIRST) !== 0,
    isLast: (flags & IS_LAST) !== 0,
    isContinued: (flags & IS_CONTINUED) !== 0,
    lacing: bytes.subarray(HEADER_BYTES, bodyAt),
    body: bytes.subarray(bodyAt),
  };
}

/** CRC-32 of polynomial 0x04c11db7, most significant bit first. */
const CHECKSUM_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte << 24;
  for (let bit = 0; bit < 8; bit++) value = value << 1 ^ (value < 0 ? 0x04c11db7 : 0);
  return value;
});

/** The checksum of a page, computed with its checksum field set to 0. */
function computeChecksum(page: Uint8Array): number {
  let value = 0;
  for (let i = 0; i < page.length; i++) {
    const byte = i >= CHECKSUM_AT && i < CHECKSUM_AT + 4 ? 0 : page[i]!;
    value = value << 8 ^ CHECKSUM_TABLE[value >>> 24 ^ byte]!;
  }
  return value >>> 0;
}
