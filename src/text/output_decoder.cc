#include "text/output_decoder.h"

#include <utility>

#include "text/byte_patterns.h"
#include "text/output_machine.h"
#include "text/stream_decoder.h"
#include "text/utf8.h"

namespace thalweg::text {

class OutputDecoder::Impl {
 public:
  explicit Impl(OutputDecoderOptions options) : machine(std::move(options)) {}

  // The machine sees whole characters, repaired ones where bytes are none.
  void EndCharacter() {
    machine.Feed(RepairUtf8(character));
    character.clear();
  }

  OutputMachine machine;
  std::string character;  // the beginning of one, at most three bytes
};

OutputDecoder::OutputDecoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputDecoder::OutputDecoder(OutputDecoder&&) noexcept = default;
OutputDecoder& OutputDecoder::operator=(OutputDecoder&&) noexcept = default;
OutputDecoder::~OutputDecoder() = default;

Result<OutputDecoder> OutputDecoder::Create(OutputDecoderOptions options) {
  TW_TRY(CheckStopStrings(options.stop));
  return OutputDecoder(std::make_unique<Impl>(std::move(options)));
}

OutputEvents OutputDecoder::Push(std::string_view bytes) {
  impl_->machine.Feed(TakeCertainUtf8(impl_->character, bytes));
  impl_->machine.Settle();
  return impl_->machine.Take();
}

OutputEvents OutputDecoder::PushMark(ThinkMark mark) {
  impl_->EndCharacter();
  const char byte = mark == ThinkMark::kBegin ? kThinkByte : kEndThinkByte;
  impl_->machine.Feed(std::string_view(&byte, 1));
  impl_->machine.Settle();
  return impl_->machine.Take();
}

bool OutputDecoder::done() const { return impl_->machine.done(); }

OutputEvents OutputDecoder::Finish(OutputReason reason) {
  impl_->EndCharacter();
  impl_->machine.Finish(reason);
  return impl_->machine.Take();
}

Result<DecodedOutput> DecodeOutput(OutputDecoderOptions options, std::string_view text,
                                   OutputReason reason) {
  TW_ASSIGN(OutputDecoder decoder, OutputDecoder::Create(std::move(options)));
  DecodedOutput output;
  Append(decoder.Push(text), &output);
  Append(decoder.Finish(reason), &output);
  return output;
}

}  // namespace thalweg::text
