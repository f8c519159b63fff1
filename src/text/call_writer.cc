#include "text/call_writer.h"

#include <utility>

#include "base/json.h"

namespace thalweg::text {
namespace {

constexpr base::JsonLimits kArgumentLimits = {.max_depth = 128};

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool IsJson(std::string_view text) {
  return base::ParseJson(text, "argument", kArgumentLimits).ok();
}

// What Python calls a JSON value; empty: nothing of that kind.
std::string_view FromPython(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return {};
}

}  // namespace

void CallWriter::Begin(std::string name) {
  const int index = calls_++;
  parameters_ = 0;
  events_->Add(CallBegin{index, id_prefix_ + std::to_string(index), std::move(name)});
}

void CallWriter::BeginKey() { Write(parameters_++ == 0 ? "{\"" : ", \""); }

void CallWriter::Key(std::string_view piece) { WriteEscaped(piece); }

void CallWriter::EndKey() { Write("\": "); }

void CallWriter::BeginValue(Kind kind) {
  kind_ = kind;
  body_.clear();
  if (kind == Kind::kString) Write("\"");
}

void CallWriter::Value(std::string_view piece) {
  if (kind_ == Kind::kString) return WriteEscaped(piece);
  body_ += piece;
}

void CallWriter::EndValue() {
  if (kind_ == Kind::kString) return Write("\"");
  WriteJson(std::exchange(body_, {}));
}

void CallWriter::WriteJson(std::string_view body) {
  const std::string_view value = Trimmed(body);
  if (IsJson(value)) return Write(value);
  if (kind_ == Kind::kJson) ++mended_;
  if (const std::string_view known = FromPython(value); !known.empty()) return Write(known);
  Write("\"");
  WriteEscaped(body);
  Write("\"");
}

void CallWriter::End() {
  Write(parameters_ == 0 ? "{}" : "}");
  ++complete_;
  events_->Add(CallEnd{.index = calls_ - 1, .complete = true});
}

void CallWriter::Cut() {
  Write(std::exchange(body_, {}));
  events_->Add(CallEnd{.index = calls_ - 1, .complete = false});
}

// The text of a JSON string has no state: pieces of whole characters are escaped one by one.
void CallWriter::WriteEscaped(std::string_view text) {
  const std::string quoted = base::Json(text).dump();
  Write(std::string_view(quoted).substr(1, quoted.size() - 2));
}

}  // namespace thalweg::text
