/**
 * Fills ONNX Runtime's upload buffers by `queue.writeBuffer`.
 *
 * ONNX Runtime uploads every weight and every input through a buffer of its own that is mapped at creation. Deno's
 * `getMappedRange` first copies the buffer's content, and a graphics card's upload memory is slow to read: 33 ms per
 * MiB on an H200, where `writeBuffer` takes 0.1 ms. Here the mapped range is memory of JavaScript's, which is written
 * when the buffer is unmapped.
 *
 * @module
 */

/** Makes the device fill unlabelled upload buffers (mapped at creation, sources of copies) by `writeBuffer`. */
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
          // Frees the memory now rather than at the next collection.
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
