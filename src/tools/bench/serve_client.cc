#include "tools/bench/serve_client.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace thalweg::tools::bench {
namespace {

constexpr size_t kErrorBytes = 200;  // that are kept of a text

// The number behind `name`, or -1.
int64_t NumberBehind(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return -1;
  int64_t value = -1;
  const char* begin = text.data() + at + name.size();
  std::from_chars(begin, text.data() + text.size(), value);
  return value;
}

}  // namespace

void AnswerReader::TakeHeader(std::string_view line) {
  if (line.starts_with("HTTP/1.1 ")) {
    if (!line.starts_with("HTTP/1.1 200")) error_ = line.substr(9);
    return;
  }
  if (line.starts_with("Transfer-Encoding: chunked")) chunked_ = true;
  if (line.starts_with("Content-Length: "))
    length_ = static_cast<size_t>(std::max<int64_t>(NumberBehind(line, ": "), 0));
}

void AnswerReader::TakeText(std::string_view data) {
  constexpr std::string_view kName = "\"text\":\"";
  const size_t at = data.find(kName);
  if (at == std::string_view::npos) return;
  data.remove_prefix(at + kName.size());
  if (data.starts_with('"')) return;
  ++new_events_;
  if (!std::exchange(has_text_, true))
    std::from_chars(data.data(), data.data() + data.size(), stamp_);
}

void AnswerReader::TakeData(std::string_view data) {
  if (data.starts_with("{\"error\"")) error_ = data.substr(0, kErrorBytes);
  TakeText(data);
  tokens_ = std::max(tokens_, NumberBehind(data, "\"completion_tokens\":"));
}

// Whether it was the last one: the empty one behind the chunk without bytes.
bool AnswerReader::TakeLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (last_) return line.empty();
  if (in_head_) {
    in_head_ = !line.empty();
    if (in_head_) TakeHeader(line);
    return false;
  }
  if (line.starts_with("data: ")) TakeData(line.substr(6));
  last_ = line == "0";
  return false;
}

bool AnswerReader::TakeBody() {
  if (pending_.size() < length_) return false;
  if (error_.empty()) TakeData(std::string_view(pending_).substr(0, length_));
  return true;
}

bool AnswerReader::Push(std::string_view bytes) {
  new_events_ = 0;
  pending_ += bytes;
  size_t begin = 0;
  bool complete = false;
  while (!complete && (in_head_ || chunked_)) {
    const size_t end = pending_.find('\n', begin);
    if (end == std::string::npos) break;
    complete = TakeLine(std::string_view(pending_).substr(begin, end - begin));
    begin = end + 1;
  }
  pending_.erase(0, begin);
  return complete || (!in_head_ && !chunked_ && TakeBody());
}

}  // namespace thalweg::tools::bench
