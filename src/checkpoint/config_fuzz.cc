// Any bytes as config.json: an error or a valid Config, whose derived values can be computed and
// which survives writing and reading.
#include "checkpoint/config.h"
#include "checkpoint/expected.h"

namespace {

using namespace thalweg::checkpoint;

// The list of a legal but huge config is only slow, which is not what this looks for.
bool IsSmall(const Config& config) {
  return config.num_hidden_layers * config.n_routed_experts < 4096;
}

void Use(const Config& config) {
  const Config again = Config::Parse(ToJson(config)).value();
  TW_CHECK_EQ(ToJson(again), ToJson(config));
  TW_CHECK_GE(KvBytesPerToken(config), 0.0);
  TW_CHECK_GT(CountActiveParameters(config).decode, int64_t{0});
  if (!IsSmall(config)) return;
  for (const ExpectedTensor& tensor : ExpectedTensors(config))
    TW_CHECK_GE(tensor.bytes(), int64_t{0});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = Config::Parse({reinterpret_cast<const char*>(data), size});
  if (config.ok()) Use(*config);
  const auto defaults = GenerationDefaults::Parse({reinterpret_cast<const char*>(data), size});
  if (defaults.ok()) TW_CHECK_GE(defaults->temperature, 0.0);
  return 0;
}
