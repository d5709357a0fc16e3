/**
 * Which media references a server follows: its policy, the errors for others, and the network addresses from which it may
 * fetch on behalf of a request.
 *
 * @see https://www.iana.org/assignments/iana-ipv4-special-registry and its IPv6 companion
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { isIPv4 } from "node:net";

/** The references that a server follows. */
export interface MediaPolicy {
  /** Whether the caller is on this machine, and so may refer to its files and its network's addresses. */
  readonly isLocal: boolean;
  /** Whether addresses of private networks and of this machine are allowed anyway. */
  readonly allowPrivate: boolean;
  /** Folder whose files anyone may refer to. */
  readonly mediaDir: string | undefined;
  readonly maxBytes: number;
  /** Longest time to wait for all bytes of a reference. */
  readonly maxTotalMs: number;
}

/** The error for media that cannot be read. Its message begins in the middle of a sentence. */
export function invalidMedia(why: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", why, { cause });
}

/** The error for media over the limit. */
export function tooLargeMedia({ maxBytes }: MediaPolicy): HearthError {
  return invalidMedia(
    `it has more than the ${Math.floor(maxBytes / 2 ** 20)} MiB that are allowed`,
  );
}

/**
 * Kinds of addresses: a `local` one belongs to this machine or its network, and a `forbidden` one is never fetched
 * from.
 */
type AddressKind = "public" | "local" | "forbidden";

type Range = readonly [prefix: string, bits: number, kind: AddressKind];

/** The first range that matches decides. */
const IPV4_RANGES: readonly Range[] = [
  // Metadata services of clouds outside the link-local range.
  ["100.100.100.200", 32, "forbidden"],
  ["168.63.129.16", 32, "forbidden"],
  ["192.0.0.0", 24, "forbidden"],
  ["169.254.0.0", 16, "forbidden"],
  ["0.0.0.0", 8, "local"],
  ["10.0.0.0", 8, "local"],
  ["100.64.0.0", 10, "local"],
  ["127.0.0.0", 8, "local"],
  ["172.16.0.0", 12, "local"],
  ["192.168.0.0", 16, "local"],
  ["198.18.0.0", 15, "local"],
  ["224.0.0.0", 3, "forbidden"],
];

const IPV6_RANGES: readonly Range[] = [
  // Metadata services of clouds outside the link-local range.
  ["fd00:ec2::254", 128, "forbidden"],
  ["fd20:ce::254", 128, "forbidden"],
  // Translation to IPv4 addresses within a network (RFC 8215).
  ["64:ff9b:1::", 48, "local"],
  ["::", 128, "local"],
  ["::1", 128, "local"],
  ["fc00::", 7, "local"],
  ["fec0::", 10, "local"],
  ["fe80::", 10, "forbidden"],
  ["ff00::", 8, "forbidden"],
  // Teredo, whose IPv4 address is obfuscated.
  ["2001::", 32, "forbidden"],
];
/** The addresses of the public internet. Addresses outside this range and all lists are reserved. */
const IPV6_GLOBAL = { prefix: "2000::", bits: 3 };

/** Ranges of IPv6 addresses that contain an IPv4 address, in four bytes from `at` on. */
const EMBEDDED: readonly { readonly prefix: string; readonly bits: number; readonly at: number }[] =
  [
    { prefix: "::ffff:0:0", bits: 96, at: 12 },
    // Stateless translation (RFC 7915).
    { prefix: "::ffff:0:0:0", bits: 96, at: 12 },
    { prefix: "64:ff9b::", bits: 96, at: 12 },
    { prefix: "2002::", bits: 16, at: 2 },
    { prefix: "::", bits: 96, at: 12 },
  ];

/**
 * The kind of an IP address.
 *
 * @param address as the resolver gives it, perhaps with an IPv6 zone.
 * @example
 * ```ts
 * import { classifyAddress } from "./media_policy.ts";
 * classifyAddress("169.254.169.254"); // "forbidden"
 * classifyAddress("::ffff:10.0.0.1"); // "local"
 * ```
 */
export function classifyAddress(address: string): AddressKind {
  if (isIPv4(address)) return kindOfBytes(bytesOfIpv4(address), IPV4_RANGES, bytesOfIpv4);
  const bytes = parseIpv6(address.replace(/%.*$/, ""));
  if (bytes === undefined) return "forbidden";
  const own = IPV6_RANGES.find(([prefix, bits]) => hasPrefix(bytes, parseIpv6(prefix)!, bits));
  if (own !== undefined) return own[2];
  const embedded = EMBEDDED.find(({ prefix, bits }) => hasPrefix(bytes, parseIpv6(prefix)!, bits));
  if (embedded === undefined) {
    const { prefix, bits } = IPV6_GLOBAL;
    return hasPrefix(bytes, parseIpv6(prefix)!, bits) ? "public" : "forbidden";
  }
  return classifyAddress(bytes.slice(embedded.at, embedded.at + 4).join("."));
}

function kindOfBytes(
  bytes: readonly number[],
  ranges: readonly Range[],
  read: (prefix: string) => readonly number[],
): AddressKind {
  return ranges.find(([prefix, bits]) => hasPrefix(bytes, read(prefix), bits))?.[2] ?? "public";
}

function bytesOfIpv4(address: string): number[] {
  return address.split(".").map(Number);
}

/** The 16 bytes of an address in any spelling; `undefined` if invalid. */
function parseIpv6(address: string): number[] | undefined {
  // The URL parser accepts all spellings, and normalises them to hexadecimal groups.
  const host = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1);
  if (host === undefined) return undefined;
  const [head = "", tail] = host.split("::");
  const groups = (text: string) => text === "" ? [] : text.split(":");
  const before = groups(head);
  const after = groups(tail ?? "");
  const zeros = new Array<string>(8 - before.length - after.length).fill("0");
  return [...before, ...zeros, ...after].flatMap((group) => {
    const value = parseInt(group, 16);
    return [value >> 8, value & 255];
  });
}

function hasPrefix(bytes: readonly number[], prefix: readonly number[], bits: number): boolean {
  return bytes.every((byte, at) => {
    const left = Math.max(0, Math.min(8, bits - 8 * at));
    const mask = 0xff00 >> left & 0xff;
    return ((byte ^ prefix[at]!) & mask) === 0;
  });
}
