/**
 * Cutting the subject out of an image.
 *
 * @module
 */
import type { ErrorEvent } from "./ending.ts";

/** Cuts what an image is of out of its background. */
export interface MatteTask {
  readonly type: "matte";
  readonly requestId: string;
  /** The file's bytes, of any format that is known; their memory goes to the worker. */
  readonly image: Uint8Array<ArrayBuffer>;
  /** The image's place in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
  readonly options: MatteOptions;
}

/** What to make of an image; without any, its own pixels with an alpha channel. */
export interface MatteOptions {
  /** Red, green and blue, 0 to 255, of what to lay behind the subject. */
  readonly background?: readonly [red: number, green: number, blue: number] | undefined;
  /** The alpha channel alone, as a grey image. */
  readonly maskOnly?: boolean | undefined;
  /** Cut to where the subject is. */
  readonly crop?: boolean | undefined;
  /** Follow the image's own edges, and take the background's colour out of the subject's rim. */
  readonly refine?: boolean | undefined;
}

/** The answer to a matte task, in one piece. */
export type MatteEvent =
  | {
    readonly type: "done";
    /** A PNG file; its memory goes to the server. */
    readonly png: Uint8Array<ArrayBuffer>;
    readonly width: number;
    readonly height: number;
  }
  | ErrorEvent;
