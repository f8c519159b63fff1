#include "text/output_events.h"

#include "base/check.h"

namespace thalweg::text {
namespace {

struct Appender {
  DecodedOutput* output;

  void operator()(const ReasoningText& event) const { output->reasoning += event.text; }
  void operator()(const ContentText& event) const { output->content += event.text; }
  void operator()(const CallBegin& event) const {
    output->calls.push_back({.id = event.id, .name = event.name, .arguments = {}});
  }
  void operator()(const CallArguments& event) const { Last().arguments += event.text; }
  void operator()(const CallEnd& event) const { Last().complete = event.complete; }
  void operator()(const OutputEnd& event) const { output->end = event; }

  DecodedCall& Last() const {
    TW_CHECK(!output->calls.empty());
    return output->calls.back();
  }
};

}  // namespace

void Append(const OutputEvents& events, DecodedOutput* output) {
  for (const OutputEvent& event : events) std::visit(Appender{output}, event);
}

}  // namespace thalweg::text
