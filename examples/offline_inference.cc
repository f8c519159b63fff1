// Answers a few prompts with the small checkpoint that comes with the library, then streams one.
//
//   c++ -std=c++20 offline_inference.cc -lthalweg -o offline_inference && ./offline_inference
//   [MODEL]
#include <thalweg/llm.h>

#include <cstdio>

namespace {

int Fail(const thalweg::Error& error) {
  std::fprintf(stderr, "%s: %s\n", thalweg::ErrorCodeName(error.code), error.message.c_str());
  return 1;
}

void Print(const thalweg::RequestOutput& output) {
  if (!output.ok()) {  // this request alone could not be answered
    std::printf("error: %s\n", output.error->message.c_str());
    return;
  }
  for (const thalweg::CompletionOutput& one : output.outputs)
    std::printf("%d: %s (%s)\n", one.index, one.text.c_str(), one.finish_reason.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  // A folder or a Hugging Face name; empty is the small checkpoint. Every option of the engine has
  // a name (thalweg::LLM::Options()).
  auto llm = thalweg::LLM::Load(
      {.model = argc > 1 ? argv[1] : "", .options = {{"max_sequences", "8"}}, .option_file = ""});
  if (!llm) return Fail(llm.error());

  // Texts, token ids and conversations, with parameters for all or for each.
  const thalweg::Conversation question{.messages = {{.content = "What does courage mean?"}}};
  thalweg::SamplingParams params;
  params.temperature = 0;
  params.max_tokens = 48;
  const auto outputs =
      llm->Generate({"The opposite of", std::vector<int32_t>{0, 300}, question}, params);
  if (!outputs) return Fail(outputs.error());
  for (const thalweg::RequestOutput& output : *outputs) Print(output);

  // One answer as it is written. With a seed, sampling repeats itself.
  params.temperature = 0.6;
  params.seed = 7;
  params.output_kind = thalweg::OutputKind::kDelta;
  auto stream = llm->Stream(question, params);
  if (!stream) return Fail(stream.error());
  for (const thalweg::RequestOutput& output : *stream) {
    std::printf("%s", output.outputs.front().text.c_str());
    std::fflush(stdout);
  }
  std::printf("\n");
  return 0;
}
