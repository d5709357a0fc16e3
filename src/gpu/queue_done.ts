/**
 * Waits for the device's queue.
 *
 * @module
 */

/**
 * Resolves when the device has done all submitted work; blocks the thread until then. If a mapped range may be taken
 * early, it avoids the 10 ms that Deno's `onSubmittedWorkDone` sleeps afterwards.
 *
 * @throws when the device is gone.
 */
export async function queueDone(device: GPUDevice): Promise<void> {
  const buffer = device.createBuffer({
    size: Uint32Array.BYTES_PER_ELEMENT,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  try {
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(buffer);
    device.queue.submit([encoder.finish()]);
    await buffer.mapAsync(GPUMapMode.READ);
  } finally {
    buffer.destroy();
  }
}
