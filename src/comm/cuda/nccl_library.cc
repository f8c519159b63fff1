#include "comm/cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace thalweg::comm {
namespace {

template <typename Function>
Status Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return {};
  return base::Unsupported(
      fmt::format("this NCCL has no {}: version 2.14 or newer is needed", name));
}

Result<NcclLibrary> Open() {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return base::Unsupported(fmt::format(
        "ranks that are GPUs need NCCL: {}. Install libnccl2 or put its folder in LD_LIBRARY_PATH",
        dlerror()));
  NcclLibrary nccl;
  TW_TRY(Find(library, "ncclGetUniqueId", &nccl.get_unique_id));
  TW_TRY(Find(library, "ncclCommInitRankConfig", &nccl.init_rank));
  TW_TRY(Find(library, "ncclCommGetAsyncError", &nccl.async_error));
  TW_TRY(Find(library, "ncclCommAbort", &nccl.abort));
  TW_TRY(Find(library, "ncclGroupStart", &nccl.group_start));
  TW_TRY(Find(library, "ncclGroupEnd", &nccl.group_end));
  TW_TRY(Find(library, "ncclSend", &nccl.send));
  TW_TRY(Find(library, "ncclRecv", &nccl.receive));
  TW_TRY(Find(library, "ncclGetErrorString", &nccl.error_string));
  static_cast<void>(Find(library, "ncclCommSplit", &nccl.split));
  return nccl;
}

}  // namespace

Result<const NcclLibrary*> LoadNccl() {
  static const Result<NcclLibrary> nccl = Open();
  if (!nccl.ok()) return nccl.status();
  return &nccl.value();
}

}  // namespace thalweg::comm
