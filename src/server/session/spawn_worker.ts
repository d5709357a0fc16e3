/**
 * Starts the worker: the thread that owns the device and runs the model.
 *
 * @module
 */

/** Starts a worker. It loads no model until it gets the message `load`. */
export function spawnModelWorker(): Worker {
  return new Worker(new URL("../../worker/worker.ts", import.meta.url), { type: "module" });
}

/**
 * Starts a worker early, so that its modules load at the same time as the caller's.
 *
 * @returns a function that returns this worker at the first call, and starts another one at each later call.
 */
export function spawnAhead(): () => Worker {
  let ahead: Worker | undefined = spawnModelWorker();
  // A worker that fails before it is asked for is dropped. The one started in its place fails too, and its owner then
  // gets the error.
  ahead.onerror = (event) => {
    event.preventDefault();
    ahead = undefined;
  };
  return () => {
    const worker = ahead ?? spawnModelWorker();
    ahead = undefined;
    return worker;
  };
}
