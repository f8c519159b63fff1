// Bodies of every generating endpoint, as strangers send them: an answer or an error, never a
// crash.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <variant>

#include "api/fake_model.h"
#include "server/endpoints.h"
#include "server/router.h"
#include "server/services.h"
#include "text/test_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace thalweg::server {
namespace {

std::shared_ptr<const text::Tokenizer> ByteTokenizer() {
  const std::string json =
      text::ByteLevelJson({}, {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜System｜>",
                               "<｜User｜>", "<｜Assistant｜>", "<｜latest_reminder｜>", "<think>",
                               "</think>", "｜DSML｜", "<｜image｜>"})
          .dump();
  return std::make_shared<const text::Tokenizer>(text::Tokenizer::Parse(json).value());
}

Services& TestServices() {
  static api::FakeModel model({}, ByteTokenizer());
  static Services services(&model, {});
  return services;
}

constexpr Handler kHandlers[] = {HandleCompletions, HandleChat,        HandleMessages,
                                 HandleResponses,   HandleCountTokens, HandleTokenize,
                                 HandleDetokenize,  HandleRender};

}  // namespace
}  // namespace thalweg::server

// The first byte chooses the endpoint. What the model is asked is looked at by the model, too,
// which has no answers.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::server;
  if (size == 0) return 0;
  const Handler handler = kHandlers[data[0] % std::size(kHandlers)];
  Services& services = TestServices();
  Outcome outcome = handler(
      {.body = std::string(reinterpret_cast<const char*>(data + 1), size - 1), .id = "fuzz"},
      services);
  auto* generation = std::get_if<Generation>(&outcome);
  if (generation == nullptr) return 0;
  for (const ModelRequest& one : generation->requests)
    (void)services.model->Submit(one.prompt, one.params, {}, one.options).ok();
  return 0;
}
