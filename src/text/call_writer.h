// Calls as the model writes them, parameter by parameter, into events: the arguments become one
// JSON object, valid whatever the model wrote.
#pragma once

#include <string>
#include <string_view>

#include "text/event_list.h"

namespace thalweg::text {

class CallWriter {
 public:
  // How the value of a parameter is meant.
  enum class Kind : uint8_t {
    kString,   // string="true": the text as it is
    kJson,     // string="false"
    kUnknown,  // no word about it: JSON if it is that, otherwise a string
  };

  // `events` must outlive the writer.
  CallWriter(std::string id_prefix, EventList* events)
      : id_prefix_(std::move(id_prefix)), events_(events) {}

  void Begin(std::string name);
  void BeginKey();
  void Key(std::string_view piece);
  void EndKey();
  void BeginValue(Kind kind);
  // Strings come out as they come in. JSON is held back until its end, when it is known to be that.
  void Value(std::string_view piece);
  // A value that is said to be JSON and is not becomes a string of its text (True, False and None
  // of Python their JSON values): no byte of it is lost, and the object stays valid.
  void EndValue();
  // The call is over, between two parameters.
  void End();
  // The text ended inside the call: what is held comes out as it is, and nothing is closed.
  void Cut();

  int calls() const { return calls_; }
  int complete_calls() const { return complete_; }
  bool has_parameters() const { return parameters_ > 0; }
  int64_t mended_values() const { return mended_; }

 private:
  void Write(std::string_view text) { events_->Arguments(calls_ - 1, text); }
  void WriteEscaped(std::string_view text);
  void WriteJson(std::string_view body);

  std::string id_prefix_;
  EventList* events_;
  Kind kind_ = Kind::kString;
  std::string body_;  // of a value that is not known to be a string
  int calls_ = 0;
  int complete_ = 0;
  int parameters_ = 0;  // of this call
  int64_t mended_ = 0;
};

}  // namespace thalweg::text
