/**
 * Starts the thread that owns the device. It loads nothing until it is told what.
 *
 * @module
 */

/** A new thread. */
export function spawnModelWorker(): Worker {
  return new Worker(new URL("../../worker/worker.ts", import.meta.url), { type: "module" });
}

/**
 * Starts a thread at once, so that its modules load while the caller's do.
 *
 * @returns what gives that thread, and later others.
 */
export function spawnAhead(): () => Worker {
  let ahead: Worker | undefined = spawnModelWorker();
  // Whoever is given the next one hears the same of it.
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
