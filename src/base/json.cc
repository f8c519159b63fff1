#include "base/json.h"

#include <fmt/format.h>

#include <unordered_set>
#include <vector>

namespace thalweg::base {
namespace {

// Builds the document while refusing what nlohmann's own builder lets through: duplicate keys, deep
// nesting and element counts that would exhaust memory.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(JsonLimits limits) : limits_(limits) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Fail("binary value"); }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& value) override {
    if (++elements_ > limits_.max_elements) return Fail("too many elements");
    if (!keys_.back().insert(value).second) return Fail(fmt::format("duplicate key \"{}\"", value));
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (error_.empty()) error_ = fmt::format("syntax error at byte {}: {}", position, error.what());
    return false;
  }

  const std::string& error() const { return error_; }
  Json Take() { return std::move(root_); }

 private:
  bool Fail(std::string message) {
    error_ = std::move(message);
    return false;
  }

  bool Add(Json value) {
    if (++elements_ > limits_.max_elements) return Fail("too many elements");
    Place(std::move(value));
    return true;
  }

  Json* Place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // push_back keeps the order and skips the linear search for the key: uniqueness is known
    // already.
    auto& members = parent.get_ref<Json::object_t&>();
    members.Container::emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  bool Open(Json container) {
    if (++elements_ > limits_.max_elements) return Fail("too many elements");
    if (static_cast<int>(stack_.size()) >= limits_.max_depth) return Fail("nested too deeply");
    stack_.push_back(Place(std::move(container)));
    keys_.emplace_back();
    return true;
  }

  bool Close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  JsonLimits limits_;
  size_t elements_ = 0;
  Json root_;
  std::string key_;
  std::string error_;
  // Pointers stay valid: a container only grows while it is on top of the stack.
  std::vector<Json*> stack_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view what, JsonLimits limits) {
  // The library takes this byte for the end of the text and reads no further.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidArgument(
        fmt::format("{} is not valid JSON: a zero byte at byte {}", what, nul + 1));
  }
  StrictBuilder builder(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidArgument(fmt::format("{} is not valid JSON: {}", what, builder.error()));
  }
  return builder.Take();
}

}  // namespace thalweg::base
