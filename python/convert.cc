#include "convert.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <limits>

namespace thalweg::python {
namespace {

[[noreturn]] void Refuse(std::string message) {
  throw ErrorException({ErrorCode::kInvalidArgument, std::move(message)});
}

int32_t TokenOf(const py::handle& item, const std::string& what) {
  const py::object number = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
  if (!number) {
    PyErr_Clear();
    Refuse(what + " is " + std::string(py::repr(item)) + ", but must be a token id");
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0 || value < 0 || value > std::numeric_limits<int32_t>::max())
    Refuse(what + " is " + std::string(py::repr(item)) + ", which is no token id");
  return static_cast<int32_t>(value);
}

py::tuple LogprobTuple(const Logprob& value) {
  return py::make_tuple(value.token_id, value.logprob, value.rank, value.decoded_token);
}

// (chosen, top...): the same token may be in both.
py::list PositionList(const PositionLogprobs& position) {
  py::list list;
  list.append(LogprobTuple(position.chosen));
  for (const Logprob& one : position.top) list.append(LogprobTuple(one));
  return list;
}

py::object LogprobsOf(const CompletionOutput& output) {
  if (!output.logprobs.has_value()) return py::none();
  py::list list;
  for (const PositionLogprobs& position : *output.logprobs) list.append(PositionList(position));
  return list;
}

py::object PromptLogprobsOf(const RequestOutput& output) {
  if (!output.prompt_logprobs.has_value()) return py::none();
  py::list list;
  for (const auto& position : *output.prompt_logprobs)
    list.append(position.has_value() ? py::object(PositionList(*position)) : py::none());
  return list;
}

py::object StopReasonOf(const CompletionOutput& output) {
  if (const auto* token = std::get_if<int32_t>(&output.stop_reason)) return py::int_(*token);
  if (const auto* text = std::get_if<std::string>(&output.stop_reason)) return py::str(*text);
  return py::none();
}

py::dict CompletionDict(const CompletionOutput& output) {
  py::dict dict;
  dict["index"] = output.index;
  dict["text"] = output.text;
  dict["token_ids"] = output.token_ids;
  dict["cumulative_logprob"] = output.cumulative_logprob;
  dict["logprobs"] = LogprobsOf(output);
  dict["finish_reason"] =
      output.finished() ? py::object(py::str(output.finish_reason)) : py::none();
  dict["stop_reason"] = StopReasonOf(output);
  dict["reasoning_tokens"] = output.reasoning_tokens;
  return dict;
}

py::object ErrorOf(const RequestOutput& output) {
  if (!output.error.has_value()) return py::none();
  return py::make_tuple(ErrorCodeName(output.error->code), output.error->message);
}

// thalweg.errors.make(code, message), as an object.
py::object MakeException(const Error& error) {
  return py::module_::import("thalweg.errors")
      .attr("make")(ErrorCodeName(error.code), error.message);
}

}  // namespace

void RegisterErrors() {
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const ErrorException& error) {
      const py::object exception = MakeException(error.error());
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
    }
  });
}

std::vector<int32_t> TokensOf(const py::handle& ids, const std::string& what) {
  if (!py::isinstance<py::sequence>(ids) || py::isinstance<py::str>(ids))
    Refuse(what + " is " + std::string(py::repr(ids)) + ", but must be a sequence of token ids");
  std::vector<int32_t> tokens;
  const auto sequence = py::reinterpret_borrow<py::sequence>(ids);
  tokens.reserve(sequence.size());
  for (const py::handle item : sequence)
    tokens.push_back(TokenOf(item, what + "[" + std::to_string(tokens.size()) + "]"));
  return tokens;
}

Prompt PromptOf(const py::handle& prompt) {
  if (py::isinstance<py::str>(prompt)) return prompt.cast<std::string>();
  if (py::isinstance<Conversation>(prompt)) return prompt.cast<Conversation>();
  return TokensOf(prompt, "prompt_token_ids");
}

std::vector<Prompt> PromptsOf(const py::list& prompts) {
  std::vector<Prompt> out;
  out.reserve(prompts.size());
  for (const py::handle prompt : prompts) out.push_back(PromptOf(prompt));
  return out;
}

void CopyLogits(const py::handle& values, std::span<float> logits) {
  const auto sequence = py::reinterpret_borrow<py::object>(values);
  if (PyObject_Size(sequence.ptr()) != static_cast<py::ssize_t>(logits.size())) {
    PyErr_Clear();
    throw py::value_error("must return None or one number for each token");
  }
  if (PyObject_CheckBuffer(sequence.ptr()) != 0) {
    const py::buffer_info info = py::reinterpret_borrow<py::buffer>(values).request();
    if (info.ndim == 1 && info.format == "f" && info.strides[0] == py::ssize_t{sizeof(float)}) {
      std::copy_n(static_cast<const float*>(info.ptr), logits.size(), logits.begin());
      return;
    }
  }
  size_t i = 0;
  for (const py::handle item : sequence) logits[i++] = item.cast<float>();
}

py::dict OutputDict(const RequestOutput& output) {
  py::dict dict;
  dict["request_id"] = output.request_id;
  dict["prompt"] = output.prompt;
  dict["prompt_token_ids"] = output.prompt_token_ids;
  dict["prompt_logprobs"] = PromptLogprobsOf(output);
  py::list outputs;
  for (const CompletionOutput& one : output.outputs) outputs.append(CompletionDict(one));
  dict["outputs"] = outputs;
  dict["finished"] = output.finished;
  dict["error"] = ErrorOf(output);
  dict["metrics"] = py::make_tuple(output.metrics.submitted_at, output.metrics.admitted_at,
                                   output.metrics.first_token_at, output.metrics.last_token_at);
  dict["num_cached_tokens"] = output.num_cached_tokens;
  return dict;
}

py::dict RecommendedDict(const SamplingParams& params) {
  py::dict dict;
  dict["temperature"] = params.temperature;
  dict["top_p"] = params.top_p;
  dict["top_k"] = params.top_k;
  dict["min_p"] = params.min_p;
  dict["repetition_penalty"] = params.repetition_penalty;
  return dict;
}

py::list OptionDicts() {
  py::list list;
  for (const OptionInfo& option : LLM::Options()) {
    py::dict dict;
    dict["name"] = option.name;
    dict["type"] = option.type;
    dict["default"] = option.default_value;
    dict["environment"] = option.environment;
    dict["help"] = option.help;
    dict["choices"] = option.choices;
    dict["least"] = option.least;
    dict["most"] = option.most;
    list.append(dict);
  }
  return list;
}

}  // namespace thalweg::python
