/**
 * Reads the bytes of files: texts, numbers and bits at any offset, and the signatures by which formats are recognised.
 *
 * @module
 */

/** Whether a file has this text at an offset. */
export function hasText(file: Uint8Array, offset: number, text: string): boolean {
  if (offset < 0 || offset + text.length > file.length) return false;
  for (let i = 0; i < text.length; i++) {
    if (file[offset + i] !== text.charCodeAt(i)) return false;
  }
  return true;
}

/** A view that reads numbers of a file, and throws beyond its end. */
export function viewData(file: Uint8Array): DataView {
  return new DataView(file.buffer, file.byteOffset, file.byteLength);
}

/** Number of bits that four bytes always hold, even if the first bit is the last one of its byte. */
const MAX_PEEK_BITS = 24;

/** Reads from a byte array, bit by bit. */
export class BitReader {
  readonly #bytes: Uint8Array;
  #position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Number of bits that are left. */
  get bitsLeft(): number {
    return this.#bytes.length * 8 - this.#position;
  }

  /** Number of bits read so far. */
  get position(): number {
    return this.#position;
  }

  /**
   * Reads `count` bits, at most 48, as an unsigned integer.
   *
   * @throws {RangeError} when there are fewer.
   */
  read(count: number): number {
    if (count > MAX_PEEK_BITS) {
      const high = this.read(count - MAX_PEEK_BITS);
      return high * 2 ** MAX_PEEK_BITS + this.read(MAX_PEEK_BITS);
    }
    const value = this.peek(count);
    this.skip(count);
    return value;
  }

  /** Like {@linkcode read}, in two's complement. */
  readSigned(count: number): number {
    const value = this.read(count);
    return value < 2 ** (count - 1) ? value : value - 2 ** count;
  }

  /** Counts the zeros before the next 1, and skips that too. */
  readUnary(): number {
    let count = 0;
    for (let next = this.peek(MAX_PEEK_BITS);; next = this.peek(MAX_PEEK_BITS)) {
      const zeros = Math.clz32(next) - (32 - MAX_PEEK_BITS);
      this.skip(next === 0 ? MAX_PEEK_BITS : zeros + 1);
      count += zeros;
      if (next !== 0) return count;
    }
  }

  /**
   * Reads Rice codes of FLAC: a unary quotient, `parameter` bits of remainder, and the sign in the lowest bit.
   *
   * @param values receives numbers from `start` to before `end`.
   * @throws {RangeError} when the data ends within a code.
   */
  readRiceCodes(values: Float64Array, start: number, end: number, parameter: number): void {
    const bytes = this.#bytes;
    const lastWord = bytes.length - 4;
    for (let i = start; i < end; i++) {
      const at = this.#position >>> 3;
      if (at <= lastWord) {
        const word = (bytes[at]! << 24 | bytes[at + 1]! << 16 | bytes[at + 2]! << 8 |
          bytes[at + 3]!) << (this.#position & 7);
        const zeros = Math.clz32(word);
        const numBits = zeros + 1 + parameter;
        if (numBits <= MAX_PEEK_BITS) {
          const code = zeros << parameter | word << zeros << 1 >>> 1 >>> 31 - parameter;
          values[i] = code >>> 1 ^ -(code & 1);
          this.#position += numBits;
          continue;
        }
      }
      const code = this.readUnary() * 2 ** parameter + this.read(parameter);
      values[i] = code % 2 === 0 ? code / 2 : -(code + 1) / 2;
    }
  }

  /** Reads at most 24 bits without advancing; bits past the end are 0. */
  peek(count: number): number {
    const at = this.#position >>> 3;
    const bytes = this.#bytes;
    const word = (bytes[at] ?? 0) << 24 | (bytes[at + 1] ?? 0) << 16 | (bytes[at + 2] ?? 0) << 8 |
      (bytes[at + 3] ?? 0);
    // Two shifts, because a shift by 32 would do nothing.
    return word << (this.#position & 7) >>> 1 >>> (31 - count);
  }

  /** @throws {RangeError} when there are fewer bits. */
  skip(count: number): void {
    this.#position += count;
    if (this.bitsLeft < 0) throw new RangeError("The data ended in the middle of a value.");
  }

  /** Moves to the next byte boundary. */
  align(): void {
    this.#position = (this.#position + 7) & ~7;
  }
}

/** A format's characteristic text at an offset, in Latin-1. */
type Signature = readonly [name: string, offset: number, text: string];

/** Maximum number of bytes before the header of a PDF. */
const MAX_JUNK_BYTES = 1024;

/** Whether a file is a PDF, by its first bytes. */
export function isPdf(file: Uint8Array): boolean {
  for (let at = 0; at <= MAX_JUNK_BYTES; at++) {
    if (file[at] === 0x25 && hasText(file, at, "%PDF-")) return true;
  }
  return false;
}

/** Formats that are often sent as audio or as images but are not supported. */
const UNREAD: Readonly<Record<"audio" | "image", readonly Signature[]>> = {
  audio: [
    ["AMR", 0, "#!AMR"],
    ["WMA or WMV", 0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11"],
    ["AVI", 8, "AVI "],
    ["Digital Speech Standard (DSS)", 1, "dss"],
    ["Digital Speech Standard (DS2)", 1, "ds2"],
    ["AC-3", 0, "\x0b\x77"],
    ["DTS", 0, "\x7f\xfe\x80\x01"],
    ["DTS", 0, "\xfe\x7f\x01\x80"],
    ["DTS", 0, "\x1f\xff\xe8\x00"],
    ["DTS", 0, "\xff\x1f\x00\xe8"],
    ["DTS-HD", 0, "DTSHDHDR"],
    ["TrueHD", 4, "\xf8\x72\x6f\xba"],
    ["MLP", 4, "\xf8\x72\x6f\xbb"],
    ["AAC in LATM", 0, "\x56\xe0"],
    ["AAC in LATM", 0, "\x56\xe1"],
    ["MPEG program stream", 0, "\x00\x00\x01\xba"],
    ["MPEG transport stream", 0, "\x47\x40"],
    ["NUT", 0, "nut/multimedia container"],
    ["Creative Voice (VOC)", 0, "Creative Voice File"],
    ["IRCAM sound", 0, "\x64\xa3"],
    ["IRCAM sound", 1, "\0\xa3\x64"],
    ["NIST Sphere", 0, "NIST_1A"],
    ["SoX's own format", 0, ".SoX"],
    ["SoX's own format", 0, "XoS."],
    ["8SVX", 8, "8SVX"],
    ["Optimized DSD (DSDIFF)", 0, "FRM8"],
    ["Sony ATRAC (OMA)", 0, "ea3"],
    ["Flash video", 0, "FLV\x01"],
    ["WavPack", 0, "wvpk"],
    ["TTA", 0, "TTA1"],
    ["Monkey's Audio", 0, "MAC "],
    ["Musepack", 0, "MPCK"],
    ["Musepack", 0, "MP+"],
    ["DSD", 0, "DSD "],
    ["RealMedia", 0, ".RMF"],
    ["MIDI", 0, "MThd"],
  ],
  image: [
    ["a HEIF sequence", 4, "ftypmsf1"],
    ["a HEVC sequence", 4, "ftyphev"],
    ["animated AVIF", 4, "ftypavis"],
    ["Canon raw (CR3)", 4, "ftypcrx"],
    ["MP4 or QuickTime video", 4, "ftyp"],
    ["WebM or Matroska video", 0, "\x1a\x45\xdf\xa3"],
    ["JPEG XL", 0, "\xff\x0a"],
    ["JPEG XL", 4, "JXL "],
    ["JPEG 2000", 4, "jP  "],
    ["a JPEG 2000 stream", 0, "\xff\x4f\xff\x51"],
    ["JPEG XR", 0, "II\xbc"],
    ["JBIG2", 0, "\x97JB2"],
    ["BPG", 0, "BPG\xfb"],
    ["FLIF", 0, "FLIF"],
    ["QOI", 0, "qoif"],
    ["OpenEXR", 0, "v/1\x01"],
    ["Radiance HDR", 0, "#?RADIANCE"],
    ["Radiance HDR", 0, "#?RGBE"],
    ["FITS", 0, "SIMPLE  ="],
    ["DICOM", 128, "DICM"],
    ["Farbfeld", 0, "farbfeld"],
    ["GIMP (XCF)", 0, "gimp xcf"],
    ["MNG", 0, "\x8aMNG"],
    ["JNG", 0, "\x8bJNG"],
    ["a Fujifilm raw image (RAF)", 0, "FUJIFILMCCD-RAW"],
    ["an Olympus raw image (ORF)", 0, "IIRO"],
    ["an Olympus raw image (ORF)", 0, "IIRS"],
    ["a Panasonic raw image (RW2)", 0, "IIU\0"],
    ["an Apple icon (ICNS)", 0, "icns"],
    ["a cursor (CUR)", 0, "\0\0\x02\0\x01\0"],
    ["KTX", 1, "KTX "],
    ["SGI", 0, "\x01\xda\0"],
    ["SGI", 0, "\x01\xda\x01"],
    ["IM", 0, "Image type: "],
    ["DPX", 0, "SDPX"],
    ["DPX", 0, "XPDS"],
    ["Sun raster", 0, "\x59\xa6\x6a\x95"],
    ["Windows metafile (WMF)", 0, "\xd7\xcd\xc6\x9a"],
    ["Windows metafile (EMF)", 40, " EMF"],
    ["XPM", 0, "/* XPM */"],
    ["XBM", 0, "#define "],
    ["Photoshop", 0, "8BPS"],
    ["PDF", 0, "%PDF"],
    ["PostScript", 0, "%!PS"],
    ["DjVu", 0, "AT&TFORM"],
    ["an icon (ICO)", 0, "\0\0\x01\0"],
    ...Array.from("123456", (digit): Signature => ["Netpbm", 0, `P${digit}\n`]),
    ...Array.from("123456", (digit): Signature => ["Netpbm", 0, `P${digit} `]),
    ["Netpbm (PAM)", 0, "P7\n"],
    ["Portable float map (PFM)", 0, "PF\n"],
    ["Portable float map (PFM)", 0, "Pf\n"],
    ["DirectDraw (DDS)", 0, "DDS "],
    ["a ZIP archive", 0, "PK\x03\x04"],
  ],
};

/**
 * The error text for a file whose format is not supported.
 *
 * @param read names of the supported formats.
 */
export function describeUnread(
  file: Uint8Array,
  kind: "audio" | "image",
  read: readonly string[],
): string {
  const seen = nameUnread(file, kind) ?? nameMarkup(file);
  const wanted = kind === "audio" ? "supported audio" : "a supported image";
  const names = read.join(", ");
  return seen === undefined
    ? `The file is not ${wanted}; one of ${names} is expected.`
    : `The file seems to be ${seen}, which is not supported; one of ${names} is expected.`;
}

/** The name of a file's format if it is known but not supported. */
export function nameUnread(file: Uint8Array, kind: "audio" | "image"): string | undefined {
  if (kind === "audio" && isTransportStream(file)) return "MPEG transport stream";
  const signatures = kind === "audio" ? UNREAD.audio : [...UNREAD.image, ...guessUnmarked(file)];
  return signatures.find(([, offset, text]) => hasText(file, offset, text))?.[0];
}

/** Bytes of a transport stream's packet. */
const PACKET_BYTES = 188;
/** Bytes of a transport stream's packet with a timestamp before it. */
const TIMED_PACKET_BYTES = 192;
/** Number of packets that are checked. */
const NUM_PACKETS = 3;

/** Whether a file begins with packets of a transport stream, each of which begins with the same byte. */
function isTransportStream(file: Uint8Array): boolean {
  return [PACKET_BYTES, TIMED_PACKET_BYTES].some((bytes) =>
    Array.from({ length: NUM_PACKETS }, (_, index) => (index + 1) * bytes - PACKET_BYTES)
      .every((at) => file[at] === 0x47)
  );
}

/** Guesses formats that have no signature, by the values in their headers. */
function guessUnmarked(file: Uint8Array): Signature[] {
  const [isTga, isPcx] = [
    hasText(file, file.length - 18, "TRUEVISION-XFILE.\0") || isTgaHeader(file),
    file.length > 128 && file[0] === 10 && file[1]! <= 5 && file[2]! <= 1 &&
    [1, 2, 4, 8].includes(file[3]!),
  ];
  return isTga ? [["TGA", 0, ""]] : isPcx ? [["PCX", 0, ""]] : [];
}

/** Whether a header is plausible for TGA: a known kind of image, a nonzero size, 8 to 32 bits a pixel. */
function isTgaHeader(file: Uint8Array): boolean {
  if (file.length <= 18) return false;
  const [, hasPalette, kind] = file;
  const isKind = hasPalette === 0
    ? [2, 3, 10, 11].includes(kind!)
    : hasPalette === 1 && [1, 9].includes(kind!);
  return isKind && (file[12]! | file[13]!) > 0 && (file[14]! | file[15]!) > 0 &&
    [8, 15, 16, 24, 32].includes(file[16]!) && (file[17]! & 0xc0) === 0;
}

/**
 * Maximum number of bytes searched for the tag that shows the kind of markup. Comments, declarations and spaces may
 * precede the tag.
 */
const MARKUP_BYTES = 2048;

function nameMarkup(file: Uint8Array): string | undefined {
  const text = new TextDecoder().decode(file.subarray(0, MARKUP_BYTES)).trimStart();
  if (!text.startsWith("<")) return undefined;
  if (/<(!doctype )?html\b/i.test(text)) return "HTML";
  return /<svg\b/i.test(text) ? "SVG" : /^<\?xml\b/i.test(text) ? "XML" : undefined;
}
