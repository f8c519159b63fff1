// Any bytes as model.safetensors.index.json: an error, or plain file names and positions inside the
// list of files.
#include "checkpoint/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index =
      thalweg::checkpoint::ParseShardIndex({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!index.ok()) return 0;
  for (const auto& [name, file] : index->file_of) TW_CHECK_LT(file, index->files.size());
  for (const std::string& file : index->files) {
    TW_CHECK_EQ(file.find('/'), file.npos);
    TW_CHECK(file != ".." && !file.empty());
  }
  return 0;
}
