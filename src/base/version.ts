/**
 * The version of Hearth, and the command that started it.
 *
 * @module
 */
import manifest from "../../deno.json" with { type: "json" };

/** The version in deno.json. */
export const VERSION: string = manifest.version;

/** How to run this copy again, for messages that show a command. */
export const PROGRAM: string = Deno.build.standalone ? "hearth" : "deno run -A main.ts";
