/**
 * Starts the thread that owns the device. It loads nothing until told what to load.
 *
 * @module
 */

export function spawnModelWorker(): Worker {
  return new Worker(new URL("../../worker/worker.ts", import.meta.url), { type: "module" });
}

/**
 * Starts a thread early, so that its modules load at the same time as the caller's.
 *
 * @returns a function that returns this thread at first, and then new ones.
 */
export function spawnAhead(): () => Worker {
  let ahead: Worker | undefined = spawnModelWorker();
  // The next owner of the thread gets the same error.
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
