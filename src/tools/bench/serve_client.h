// What an HTTP answer brings, byte by byte: the client's side of `thalweg bench serve`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::tools::bench {

// Reads one answer of /v1/completions, streamed or whole. It reads what this server writes: events
// are not divided among chunks.
class AnswerReader {
 public:
  // Whether the answer is complete with these bytes. What follows it must not be pushed.
  bool Push(std::string_view bytes);

  // Events with text among those of the last Push.
  int64_t new_events() const { return new_events_; }
  int64_t tokens() const { return tokens_; }  // of the usage object
  // The number that the first event with text begins with, or -1.
  int64_t stamp() const { return stamp_; }
  // Empty: status 200 and no event of an error.
  const std::string& error() const { return error_; }

 private:
  bool TakeLine(std::string_view line);
  void TakeHeader(std::string_view line);
  void TakeData(std::string_view data);
  void TakeText(std::string_view data);
  bool TakeBody();

  std::string pending_;  // not yet a whole line, or the body
  bool in_head_ = true;
  bool chunked_ = false;
  bool last_ = false;  // the chunk that ends the body has come, its empty line perhaps not
  size_t length_ = 0;  // of a body that is not chunked
  int64_t new_events_ = 0;
  int64_t tokens_ = 0;
  int64_t stamp_ = -1;
  bool has_text_ = false;
  std::string error_;
};

}  // namespace thalweg::tools::bench
