/**
 * The checksums that the hub has of its files: sha256 of large ones, git's blob hash of the others.
 *
 * @module
 */
import { createHash } from "node:crypto";

/** The expected checksum of a file. */
export interface Digest {
  /** `git`: sha1 over `blob <size>\0` and the bytes. */
  readonly kind: "sha256" | "git";
  /** Lower case. */
  readonly hex: string;
}

/** Computes the digest of a file piece by piece. */
export interface Digester {
  update(bytes: Uint8Array): void;
  /** May be called once. */
  hex(): string;
}

/** Begins the digest of a file of `bytes` bytes. */
export function beginDigest(kind: Digest["kind"], bytes: number): Digester {
  const hash = createHash(kind === "sha256" ? "sha256" : "sha1");
  if (kind === "git") hash.update(`blob ${bytes}\0`);
  return { update: (piece) => void hash.update(piece), hex: () => hash.digest("hex") };
}
