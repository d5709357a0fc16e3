/**
 * Fills ONNX Runtime's upload buffers by `queue.writeBuffer`.
 *
 * It uploads every weight and every input through a buffer of its own that is mapped when it is created. Deno's
 * `getMappedRange` first copies what such a buffer holds, and a graphics card's memory for uploads is slow to read: 33 ms
 * for each MiB on an H200, where `writeBuffer` takes 0.1 ms. What is mapped here is memory of JavaScript's, which is
 * written when the buffer is unmapped.
 *
 * @module
 */

/** Writes to buffers without a label that are created mapped, to be copied from, from now on. */
export function writeUploadBuffers(device: GPUDevice): void {
  const createBuffer = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    if (!isUpload(descriptor)) return createBuffer(descriptor);
    const { size } = descriptor;
    const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = createBuffer({ size, usage });
    const mapped: { readonly offset: number; readonly bytes: ArrayBuffer }[] = [];
    return Object.assign(buffer, {
      getMappedRange: (offset = 0, length = size - offset) => {
        const bytes = new ArrayBuffer(length);
        mapped.push({ offset, bytes });
        return bytes;
      },
      unmap: () => {
        for (const { offset, bytes } of mapped.splice(0)) {
          device.queue.writeBuffer(buffer, offset, bytes);
          // Gives the memory back now rather than at the next collection.
          bytes.transfer(0);
        }
      },
    });
  };
}

function isUpload({ label, usage, mappedAtCreation }: GPUBufferDescriptor): boolean {
  return !label && mappedAtCreation === true &&
    usage === (GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC);
}
