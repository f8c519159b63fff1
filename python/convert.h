// Values of the public C++ interface from and to Python. The caller holds the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>
#include <thalweg/llm.h>

#include <exception>
#include <span>
#include <string>
#include <vector>

namespace thalweg::python {

namespace py = pybind11;

// An Error on its way to Python, where it becomes the exception of its code (thalweg.errors).
class ErrorException : public std::exception {
 public:
  explicit ErrorException(Error error) : error_(std::move(error)) {}
  const Error& error() const { return error_; }
  const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};
void RegisterErrors();

template <typename T>
T Unwrap(Expected<T> expected) {
  if (!expected.ok()) throw ErrorException(expected.error());
  return std::move(expected).value();
}

// A sequence of whole numbers that fit 32 bits; `what` names it in messages.
std::vector<int32_t> TokensOf(const py::handle& ids, const std::string& what);
// str, sequence of token ids, or Conversation.
Prompt PromptOf(const py::handle& prompt);
std::vector<Prompt> PromptsOf(const py::list& prompts);

// What a logits processor returned, into the row: a float32 buffer or a sequence of numbers with
// one for each token. Throws what Python should see otherwise.
void CopyLogits(const py::handle& values, std::span<float> logits);

// Dictionaries with the names of the structs, for the dataclasses of python/thalweg/outputs.py.
py::dict OutputDict(const RequestOutput& output);
py::list OptionDicts();
// The fields that a checkpoint recommends.
py::dict RecommendedDict(const SamplingParams& params);

}  // namespace thalweg::python
