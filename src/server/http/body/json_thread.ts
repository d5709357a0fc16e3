/**
 * The entry point of the thread that decodes large JSON bodies.
 *
 * @module
 */
import { serveFunctions } from "../../../models/threads/worker_pool.ts";
import { JSON_FUNCTIONS } from "./decode_json.ts";

serveFunctions(JSON_FUNCTIONS);
