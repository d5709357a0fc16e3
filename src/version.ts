/**
 * What this copy of Hearth is called, and how it was started.
 *
 * @module
 */
import manifest from "../deno.json" with { type: "json" };

/** As in deno.json. */
export const VERSION: string = manifest.version;

/** How a person runs this copy again, for messages that show a command. */
export const PROGRAM: string = Deno.build.standalone ? "hearth" : "deno run -A main.ts";
