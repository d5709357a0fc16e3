/**
 * Background removal.
 *
 * @module
 */
import type { ErrorEvent } from "./ending.ts";

/** Removes the background of an image. */
export interface MatteTask {
  readonly type: "matte";
  readonly requestId: string;
  /** The file's bytes, of any supported format; transferred to the worker. */
  readonly image: Uint8Array<ArrayBuffer>;
  /** The image's path in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
  readonly options: MatteOptions;
}

/** Options of the result; by default the image's own pixels with an alpha channel. */
export interface MatteOptions {
  /** Background colour: red, green and blue, 0 to 255. */
  readonly background?: readonly [red: number, green: number, blue: number] | undefined;
  /** The alpha channel alone, as a grey image. */
  readonly maskOnly?: boolean | undefined;
  /** Crop to the subject. */
  readonly crop?: boolean | undefined;
  /** Follow the image's own edges, and take the background's colour out of the subject's rim. */
  readonly refine?: boolean | undefined;
}

/** The single answer to a matte task. */
export type MatteEvent =
  | {
    readonly type: "done";
    /** A PNG file, transferred to the server. */
    readonly png: Uint8Array<ArrayBuffer>;
    readonly width: number;
    readonly height: number;
  }
  | ErrorEvent;
