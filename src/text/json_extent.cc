#include "text/json_extent.h"

namespace thalweg::text {

bool JsonExtent::Advance(char byte) {
  if (in_string_) {
    in_string_ = byte != '"' || escaped_;
    escaped_ = byte == '\\' && !escaped_;
    return false;
  }
  in_string_ = byte == '"';
  if (byte == '{' || byte == '[') ++depth_;
  if (byte != '}' && byte != ']') return false;
  return --depth_ <= 0;
}

}  // namespace thalweg::text
