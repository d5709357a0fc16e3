/**
 * Waits for `promise`, but only until `signal` is aborted. The work behind the promise continues.
 *
 * @throws the signal's reason, or the promise's rejection.
 */
export async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const left = Promise.withResolvers<never>();
  const leave = () => left.reject(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  try {
    return await Promise.race([promise, left.promise]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}
