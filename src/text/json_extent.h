// Where a JSON object or array ends, in bytes that arrive one by one. Not whether it is valid.
#pragma once

namespace thalweg::text {

class JsonExtent {
 public:
  // Whether `byte` closes what the first one opened.
  bool Advance(char byte);
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace thalweg::text
