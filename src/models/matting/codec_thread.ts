/**
 * The entry point of threads that decode and encode images. On the device's own thread this work would block the model.
 *
 * @module
 */
import { serveFunctions } from "../threads/worker_pool.ts";
import { CODEC_FUNCTIONS } from "./codec.ts";

serveFunctions(CODEC_FUNCTIONS);
