#include "kernels/devices.h"

#include <fmt/format.h>

#ifdef THALWEG_HAS_CUDA
#include "kernels/cuda/chosen_device.h"
#endif

namespace thalweg::kernels {

#ifdef THALWEG_HAS_CUDA

int DeviceCount(const Ops& ops) { return ops.memory->host ? 0 : cuda::DeviceCount(); }

Status UseDevice(const Ops& ops, int device, bool whole_process) {
  const int count = DeviceCount(ops);
  if (count == 0) return {};
  if (device < 0 || device >= count)
    return base::InvalidArgument(
        fmt::format("there is no device {}: this process sees {}", device, count));
  return cuda::ChooseDevice(device, whole_process);
}

#else

int DeviceCount(const Ops& /*ops*/) { return 0; }
Status UseDevice(const Ops& /*ops*/, int /*device*/, bool /*whole_process*/) { return {}; }

#endif

}  // namespace thalweg::kernels
