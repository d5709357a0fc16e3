/**
 * The entry point of threads that decode and encode images, so that the thread that owns the device is not blocked.
 *
 * @module
 */
import { serveFunctions } from "../threads/worker_pool.ts";
import { CODEC_FUNCTIONS } from "./codec.ts";

serveFunctions(CODEC_FUNCTIONS);
